"""Writes runs of records: for the other kernels, nothing for Python."""
