"""The layouts of records, read: for the other kernels, nothing for Python."""
