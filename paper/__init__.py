"""Every figure, table and claim of the paper, reproduced: `python -m paper NAME`."""
