"""Everything on a GPU: the local methods, the posterior, rows, pictures. CuPy is imported when it is needed."""
