"""File formats and kinds of matrix as sources of rows: one adapter for each."""
