"""No names for Python: only other kernels call this module, to read records that differ in few vectors' lengths."""
