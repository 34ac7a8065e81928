"""The layouts of records, to be written: for the other kernels, nothing for Python."""
