"""Benchmarks of bpfa: `python -m benchmarks` times the kernels; `benchmarks/README.md` lists the others."""
