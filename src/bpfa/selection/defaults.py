"""The values that a fit uses for what the user leaves open, derived from the shape of the data.

They were chosen by the measurements of benchmarks/defaults.py and benchmarks/table_starts.py.
"""

from __future__ import annotations

__all__ = [
    "SWEEPS",
    "column_steps",
    "default_batch_size",
    "default_features",
    "default_held_out",
    "default_steps",
    "most_components",
    "rotation_is_tried",
    "sparse_components",
    "start_is_tried",
]

# The largest number of features that a fit considers by default.
MAX_FEATURES = 256
# The largest size in bytes of the precision matrices of joint features. The time of their factorisation grows
# with it.
JOINT_BYTES = 64 * 2**20
# The same if they are sent from machine to machine in every step.
SENT_JOINT_BYTES = 4 * 2**20
# The sparse start with more features than columns is for tables in which each feature occurs in few rows. Its
# number of features is limited, because the time of a step grows with the cube of that number:
FEATURES_PER_COLUMN, MAX_SPARSE_FEATURES = 2, 128
# The most columns that so few features can outnumber, and the fewest rows from which a trial can tell whether
# a sparse start is better:
SPARSE_MAX_COLUMNS, SPARSE_MIN_ROWS = 127, 300
# The most operations of a step, D K^3 with joint features, for which a trial takes little time:
MAX_TRIAL_OPERATIONS = 1e8
# The share of a row's entries that its chain does not see, since so many features could fit single entries:
SPARSE_DROPOUT = 0.1
# Entries that are held out to judge the model by: this share, at most about so many, and none if that leaves
# fewer than the least. Among 1,000 entries, a coverage of 95 % has a standard error of 0.7 %, and among 4,000
# of 0.35 %, if the entries are independent. benchmarks/held_out.py shows what it costs to do without them.
HELD_OUT_SHARE, LEAST_HELD_OUT, MOST_HELD_OUT = 0.01, 1000, 4000
# Rows of a step, and how many times as many there are at most if rows are on several machines.
BATCH_SIZE, MOST_BATCHES = 1024, 64
# Sweeps of the uncollapsed Gibbs sampler.
SWEEPS = 100
# A fit has this many epochs, but at least a number of steps that depends on its start: few from principal
# components, which are a good model already; more if the data asked for the sparse start; and most otherwise.
EPOCHS = 10
PRINCIPAL_STEPS, READABLE_STEPS, SPARSE_STEPS, OTHER_STEPS = 100, 200, 500, 2000
# With sparse columns fewer steps are enough: so many from principal components, and so many epochs from
# rotated ones.
PRINCIPAL_COLUMN_STEPS, ROTATED_COLUMN_EPOCHS = 20, 20


def most_components(n_rows: int, n_columns: int) -> int:
    """Return the largest number of features: two for every three columns or rows, from 2 to 256.

    With as many features as columns or rows nothing tells noise from signal, and the noise that is learned
    from data that is not Gaussian decreases without end.

    Examples
    --------
    >>> most_components(1000, 30), most_components(1000, 1000), most_components(30, 5000)
    (20, 256, 20)
    """
    return max(1, min(n_rows, MAX_FEATURES, max(2, 2 * min(n_rows, n_columns) // 3)))


def default_held_out(n_observed: float) -> float:
    """Return the share of the entries of a table that are held out to judge the model by.

    It is a hundredth of the observed entries, but at most about 4,000 entries. Nothing is held out of a table
    with fewer than 100,000 observed entries, in which every entry counts and a hundredth would be too few to
    judge by.

    Parameters
    ----------
    n_observed : float
        Number of observed entries, or an estimate.

    Examples
    --------
    >>> default_held_out(99_000), default_held_out(200_000), default_held_out(4e6)
    (0.0, 0.01, 0.001)
    """
    if HELD_OUT_SHARE * n_observed < LEAST_HELD_OUT:
        return 0.0
    return min(HELD_OUT_SHARE, MOST_HELD_OUT / n_observed)


def sparse_components(n_columns: int) -> int:
    """Return the number of features of the sparse start, or 0 if there are too many columns to try it.

    Examples
    --------
    >>> sparse_components(30), sparse_components(100), sparse_components(200)
    (60, 128, 0)
    """
    if n_columns > SPARSE_MAX_COLUMNS:
        return 0
    return min(FEATURES_PER_COLUMN * n_columns, MAX_SPARSE_FEATURES)


def rotation_is_tried(n_factors: int, n_columns: int) -> bool:
    """Return whether there is anything to rotate, and a trial of rotated components would take little time.

    Examples
    --------
    >>> rotation_is_tried(60, 200), rotation_is_tried(60, 3000), rotation_is_tried(1, 20)
    (True, False, False)
    """
    return n_factors > 1 and n_columns * n_factors**3 <= MAX_TRIAL_OPERATIONS


def start_is_tried(n_rows: int, n_factors: int, n_columns: int) -> bool:
    """Return whether a trial can tell if rows use only some of the features, and takes little time.

    Examples
    --------
    >>> start_is_tried(300, 5, 20), start_is_tried(299, 5, 20), start_is_tried(300, 60, 3000)
    (True, False, False)
    """
    tried = sparse_components(n_columns) > 0 or rotation_is_tried(n_factors, n_columns)
    return n_rows >= SPARSE_MIN_ROWS and tried


def default_batch_size(n_rows: int, n_chunks: int = 1) -> int:
    """Return 1024 rows for each of the first 64 chunks, or all rows if there are fewer.

    Rows in several chunks are on several machines, each of which needs enough rows in a step.

    Examples
    --------
    >>> default_batch_size(10**6), default_batch_size(10**6, n_chunks=8), default_batch_size(500)
    (1024, 8192, 500)
    """
    return min(n_rows, BATCH_SIZE * min(n_chunks, MOST_BATCHES))


def default_steps(n_rows: int, batch_size: int, fewest: int) -> int:
    """Return the number of steps of ten epochs, but at least `fewest`."""
    return max(fewest, EPOCHS * -(-n_rows // batch_size))


def column_steps(n_columns: int, batch_size: int, *, rotated: bool) -> int:
    """Return the fewest steps of a fit with sparse columns that starts from components.

    They are 20 steps from principal components, and from rotated components those of 20 epochs, but at most
    100. A batch consists of columns of the table.

    Examples
    --------
    >>> column_steps(3000, 1024, rotated=False), column_steps(3000, 1024, rotated=True)
    (20, 60)
    >>> column_steps(20_000, 1024, rotated=True)
    100
    """
    if not rotated:
        return PRINCIPAL_COLUMN_STEPS
    return min(PRINCIPAL_STEPS, ROTATED_COLUMN_EPOCHS * -(-n_columns // batch_size))


def default_features(view: str, n_components: int, n_columns: int, n_chunks: int = 1) -> str:
    """Return "joint" if the algorithm sees draws and the matrices are small enough, else "factorised".

    Matrices of rows in several chunks are sent from machine to machine in every step, and must be smaller.
    """
    fits = 8 * n_columns * n_components**2 <= (JOINT_BYTES if n_chunks == 1 else SENT_JOINT_BYTES)
    return "joint" if view == "sampled" and fits else "factorised"
