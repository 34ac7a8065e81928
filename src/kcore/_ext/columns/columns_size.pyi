"""No names for Python: only other kernels call this module, for the bytes that columns take in a message."""
