"""Kernels for logs: `divergence` computes end offsets of epochs and where followers truncate, for many partitions."""
