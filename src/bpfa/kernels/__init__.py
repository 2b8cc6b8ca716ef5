"""Compiled kernels: the local methods, fast."""
