"""What runs on a GPU: local methods, posterior, rows. CuPy is imported when it is needed."""
