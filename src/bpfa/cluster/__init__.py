"""The loop of a fit with its rows on the workers of Dask, or in this process one window at a time."""
