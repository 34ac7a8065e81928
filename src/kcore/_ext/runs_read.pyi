"""Runs of flat records, read: for the other kernels, nothing for Python."""
