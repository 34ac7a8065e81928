"""What columns take as bytes: for the other kernels, nothing for Python."""
