"""Runs of records, written: for the other kernels, nothing for Python."""
