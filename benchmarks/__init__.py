"""Benchmarks of bpfa; `python -m benchmarks` runs them all."""
