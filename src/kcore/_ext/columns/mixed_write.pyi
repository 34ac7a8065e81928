"""Records that differ in the lengths of a few vectors, written: for the other kernels, nothing for Python."""
