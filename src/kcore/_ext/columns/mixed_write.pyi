"""No names for Python: only other kernels call this module, to write records that differ in few vectors' lengths."""
