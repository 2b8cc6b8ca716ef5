"""Where rows come from: a source of rows knows its size, and hands out batches of rows by their ids."""

from bpfa.data.blocks import sequential
from bpfa.data.concat import ConcatRows
from bpfa.data.formats.anndata import AnnDataRows
from bpfa.data.formats.delimited import TextRows, read_csv
from bpfa.data.formats.fcs import FCSRows
from bpfa.data.formats.files import FileRows
from bpfa.data.formats.hdf5 import HDF5Rows
from bpfa.data.formats.memmap import MemmapRows
from bpfa.data.formats.parquet import ParquetRows
from bpfa.data.formats.sparse import SparseRows
from bpfa.data.formats.tables import TableRows
from bpfa.data.formats.zarr import ZarrRows
from bpfa.data.held_out import FewHeldOutRows, HeldOutRows
from bpfa.data.mapped import MappedRows
from bpfa.data.open import as_rows, open_rows
from bpfa.data.panel_overlap import PanelOverlap
from bpfa.data.panels import PanelRows
from bpfa.data.row_names import RowNames
from bpfa.data.rows import ArrayRows, Batch, Rows, RowSource, as_source
from bpfa.data.scaling import ColumnMoments, Scale, column_moments
from bpfa.data.shuffle import batch_ids, read_batches, sample_ids
from bpfa.data.standardised import StandardisedRows
from bpfa.data.visits import ShuffledEpochs, SinglePass, Visits

__all__ = [
    "AnnDataRows",
    "ArrayRows",
    "Batch",
    "ColumnMoments",
    "ConcatRows",
    "FCSRows",
    "FewHeldOutRows",
    "FileRows",
    "HDF5Rows",
    "HeldOutRows",
    "MappedRows",
    "MemmapRows",
    "PanelOverlap",
    "PanelRows",
    "ParquetRows",
    "RowNames",
    "RowSource",
    "Rows",
    "Scale",
    "ShuffledEpochs",
    "SinglePass",
    "SparseRows",
    "StandardisedRows",
    "TableRows",
    "TextRows",
    "Visits",
    "ZarrRows",
    "as_rows",
    "as_source",
    "batch_ids",
    "column_moments",
    "open_rows",
    "read_batches",
    "read_csv",
    "sample_ids",
    "sequential",
]
