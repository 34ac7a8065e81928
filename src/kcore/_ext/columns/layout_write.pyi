"""No names for Python: only other kernels call this module, for the layouts of records to write."""
