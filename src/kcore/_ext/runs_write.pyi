"""Runs of flat records, written: for the other kernels, nothing for Python."""
