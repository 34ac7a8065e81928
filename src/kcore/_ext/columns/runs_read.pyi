"""No names for Python: only other kernels call this module, to read many records at once."""
