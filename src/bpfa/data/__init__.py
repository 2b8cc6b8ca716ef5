"""Where rows come from. A source of rows knows its size and hands out batches by row id."""

from bpfa.data.rows import ArrayRows, Batch, Rows, as_rows

__all__ = ["ArrayRows", "Batch", "Rows", "as_rows"]
