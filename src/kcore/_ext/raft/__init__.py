"""Kernels for logs: `divergence` computes end offsets of epochs and followers' truncation offsets, by partition."""
