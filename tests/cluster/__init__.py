"""Tests of fits on Dask workers: a package, so that its conftest.py has a name of its own."""
