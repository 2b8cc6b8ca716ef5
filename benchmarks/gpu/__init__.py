"""The speed of a GPU: `python -m benchmarks.gpu`."""
