"""No names for Python: only other kernels call this module, to write many records at once."""
