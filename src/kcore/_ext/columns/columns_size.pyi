"""The size of columns in bytes of a message: for the other kernels, nothing for Python."""
