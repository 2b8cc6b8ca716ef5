"""Everything that runs on a GPU: local methods, posterior, rows. CuPy is imported only when it is needed."""
