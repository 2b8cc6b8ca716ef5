"""The variants in which the GPU's kernels are compiled: a source file and its macros."""

from itertools import product

REALS = ("float", "double")
# Observed columns in registers (0: in a list), lanes for each row, threads of a block; as in
# cuda/launch_shapes.py.
ROWS = {
    "float": [
        (0, 16, 1024),
        (16, 16, 640),
        (32, 16, 512),
        (48, 32, 640),
        (64, 32, 512),
        (96, 32, 384),
        (128, 32, 256),
    ],
    "double": [(0, 16, 512), (16, 16, 384), (48, 32, 256)],
}
COMPLETE_THREADS = {"float": 768, "double": 256}
# For gibbs_rows.cu: threads of a block by observed columns, and by features where rows are complete.
FITTING = {
    "float": {16: 768, 28: 768, 32: 768, 40: 512, 64: 512, 96: 384, 128: 256},
    "double": {16: 384, 48: 256},
}
FITTING_COMPLETE = {"float": {256: 768, 512: 512}, "double": {256: 384, 512: 256}}


def gibbs_variants():
    """Yield gibbs.cu with every place for the dictionary and for a row, every method and precision."""
    for real, two_step in product(REALS, (0, 1)):
        shared = (f"REAL={real}", f"TWO_STEP={two_step}")
        for (observed, lanes, threads), tiles, variance in product(ROWS[real], range(3), (0, 1)):
            row = (f"OBSERVED={observed}", f"ROW_LANES={lanes}", f"THREADS={threads}")
            yield (*shared, "MISSING=1", f"TILES={tiles}", f"VARIANCE={variance}", *row)
        for groups in (0, 1, 4, 8):
            yield (*shared, "MISSING=0", f"GROUPS={groups}", f"THREADS={COMPLETE_THREADS[real]}")


def rows_variants():
    """Yield gibbs_rows.cu for every number of columns or features, and every precision."""
    for real in REALS:
        for observed, threads in FITTING[real].items():
            for variance, mostly in product((0, 1), (0, 1)):
                kind = f"VARIANCE={variance}", f"MOSTLY_OBSERVED={mostly}"
                row = f"OBSERVED={observed}", *kind, f"THREADS={threads}"
                yield f"REAL={real}", "MISSING=1", *row
        for tiles in (4, 16, 32):
            threads = FITTING_COMPLETE[real][256 if tiles <= 16 else 512]
            yield f"REAL={real}", "MISSING=0", f"FEATURE_TILES={tiles}", f"THREADS={threads}"


def variants():
    """Yield every source with every combination of macros that is used."""
    yield from (("gibbs.cu", macros) for macros in gibbs_variants())
    yield from (("gibbs_rows.cu", macros) for macros in rows_variants())
    for squares, tiles, buffers in product((0, 1), (1, 5, 8), (1, 2)):
        yield "sums_tensor.cu", ("REAL=float", f"SQUARES={squares}", f"TILES={tiles}", f"BUFFERS={buffers}")
    for steps in (1, 5, 8):
        yield "correlations.cu", ("REAL=float", f"STEPS={steps}")
    for real, mean_field, columns in product(REALS, (0, 1), (1, 2, 15, 64)):
        yield "variational.cu", (f"REAL={real}", f"MEAN_FIELD={mean_field}", f"COLUMNS={columns}")
    plain = "sums.cu", "rows.cu", "dropout.cu", "posterior.cu", "products.cu", "images.cu"
    for source, real in product(plain, REALS):
        yield source, (f"REAL={real}",)
    yield "sums.cu", ("REAL=double", "ROWS=16")
    yield "graphs.cu", ()
    for pixel, deviation in (
        ("unsigned char", "float"),
        ("int", "float"),
        ("float", "float"),
        ("double", "double"),
    ):
        yield "frames.cu", (f"PIXEL={pixel}", f"DEVIATION={deviation}")
    for columns, threads, scratch in product((1, 2, 33, 49, 64, 75, 81, 150), (128, 256), (0, 1)):
        yield "groups.cu", (f"COLUMNS={columns}", f"THREADS={threads}", "BLOCKS=2", f"SCRATCH={scratch}")
    yield "group_search.cu", ()
    yield "group_average.cu", ()
    yield "row_groups.cu", ()


ALL = list(variants())
# One of each kind, which are compiled in every run of the tests.
FEW = [
    ("gibbs.cu", ("REAL=float", "MISSING=1", "OBSERVED=32", "THREADS=512")),
    ("gibbs.cu", ("REAL=float", "MISSING=1", "OBSERVED=64", "ROW_LANES=32", "THREADS=512", "TILES=1")),
    ("gibbs.cu", ("REAL=double", "MISSING=1", "TILES=2", "TWO_STEP=1", "VARIANCE=1", "THREADS=512")),
    ("gibbs.cu", ("REAL=float", "MISSING=0", "GROUPS=4", "THREADS=768")),
    ("gibbs_rows.cu", ("REAL=float", "MISSING=1", "OBSERVED=32", "THREADS=768")),
    ("gibbs_rows.cu", ("REAL=double", "MISSING=0", "FEATURE_TILES=16", "THREADS=384")),
    ("correlations.cu", ("REAL=float", "STEPS=8")),
    ("sums_tensor.cu", ("REAL=float", "SQUARES=0")),
    ("sums_tensor.cu", ("REAL=float", "SQUARES=1", "BUFFERS=1")),
    ("variational.cu", ("REAL=float", "MEAN_FIELD=1", "COLUMNS=2")),
    ("sums.cu", ("REAL=float",)),
    ("frames.cu", ("PIXEL=unsigned char", "DEVIATION=float")),
    ("rows.cu", ("REAL=float",)),
    ("dropout.cu", ("REAL=float",)),
    ("posterior.cu", ("REAL=float",)),
    ("products.cu", ("REAL=float",)),
    ("graphs.cu", ()),
    ("images.cu", ("REAL=float",)),
    ("groups.cu", ("COLUMNS=49", "THREADS=256", "BLOCKS=3", "SCRATCH=0")),
    ("groups.cu", ("COLUMNS=33", "THREADS=256", "BLOCKS=2", "SCRATCH=1")),
    ("group_search.cu", ()),
    ("group_average.cu", ()),
    ("row_groups.cu", ()),
]
