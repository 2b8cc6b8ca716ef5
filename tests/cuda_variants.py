"""The kernels of the GPU as they are compiled: a source and its macros."""

from itertools import product

REALS = ("float", "double")
# Observed columns in registers (0: a list), lanes of a row, threads of a block: as in bpfa.gpu.gibbs.
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


def gibbs_variants():
    """Every place for the dictionary and for a row, every method and precision."""
    for real, two_step in product(REALS, (0, 1)):
        shared = (f"REAL={real}", f"TWO_STEP={two_step}")
        for (observed, lanes, threads), tiles, variance in product(ROWS[real], range(3), (0, 1)):
            row = (f"OBSERVED={observed}", f"ROW_LANES={lanes}", f"THREADS={threads}")
            yield (*shared, "MISSING=1", f"TILES={tiles}", f"VARIANCE={variance}", *row)
        for groups in (0, 1, 4, 8):
            yield (*shared, "MISSING=0", f"GROUPS={groups}", f"THREADS={COMPLETE_THREADS[real]}")


def variants():
    """Yield all of them."""
    yield from (("gibbs.cu", macros) for macros in gibbs_variants())
    for real, mean_field, columns in product(REALS, (0, 1), (1, 2, 15, 64)):
        yield "variational.cu", (f"REAL={real}", f"MEAN_FIELD={mean_field}", f"COLUMNS={columns}")
    for source, real in product(("sums.cu", "rows.cu", "posterior.cu", "images.cu"), REALS):
        yield source, (f"REAL={real}",)


ALL = list(variants())
# One of each kind, for every run of the tests.
FEW = [
    ("gibbs.cu", ("REAL=float", "MISSING=1", "OBSERVED=32", "THREADS=512")),
    ("gibbs.cu", ("REAL=float", "MISSING=1", "OBSERVED=64", "ROW_LANES=32", "THREADS=512", "TILES=1")),
    ("gibbs.cu", ("REAL=double", "MISSING=1", "TILES=2", "TWO_STEP=1", "VARIANCE=1", "THREADS=512")),
    ("gibbs.cu", ("REAL=float", "MISSING=0", "GROUPS=4", "THREADS=768")),
    ("variational.cu", ("REAL=float", "MEAN_FIELD=1", "COLUMNS=2")),
    ("sums.cu", ("REAL=float",)),
    ("rows.cu", ("REAL=float",)),
    ("posterior.cu", ("REAL=float",)),
    ("images.cu", ("REAL=float",)),
]
