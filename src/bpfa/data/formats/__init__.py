"""Sources of rows, one adapter for each format."""
