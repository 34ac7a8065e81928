"""Records that differ in the lengths of a few vectors, read: for the other kernels, nothing for Python."""
