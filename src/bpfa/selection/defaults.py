"""What a fit uses where the user does not say, by the shape of the data (see benchmarks/defaults.py)."""

from __future__ import annotations

__all__ = [
    "SWEEPS",
    "default_batch_size",
    "default_features",
    "default_init",
    "default_noise",
    "default_steps",
    "most_components",
    "sparse_components",
]

# Bytes that the precision matrices of joint features may take; their factorisation takes time accordingly.
JOINT_BYTES = 64 * 2**20
# Columns whose covariances are taken apart in no time.
FEW_COLUMNS = 2048
# Features that few rows have: so many for a common factor, and at most so many, as the time of a step grows
# with their cube; and the most columns, which so few features can be more than, and the fewest rows that can
# tell whether there are any.
SPARSE_GROWTH, MOST_SPARSE, SPARSE_COLUMNS, SPARSE_ROWS = 3, 128, 128, 300
# The share of a row's entries that its chain then does not see: there are features enough to fit single ones.
SPARSE_DROPOUT = 0.1
# Sweeps of the uncollapsed sampler.
SWEEPS = 100
# The fewest steps: from principal components, which are a good model already; with features that few rows
# have, where the data asked for them; and otherwise.
FEW_STEPS, SOME_STEPS, MANY_STEPS = 100, 500, 2000


def most_components(n_rows: int, n_columns: int) -> int:
    """Two features for three columns, from 2 to 256, and no more than the rows.

    With as many features as columns nothing tells noise from signal, and the noise of data that is not
    Gaussian sinks for ever.
    """
    return max(1, min(n_rows, 256, max(2, 2 * n_columns // 3)))


def sparse_components(n_factors: int, n_rows: int, n_columns: int) -> int:
    """Return how many features there are if few rows have each, or 0 where that is not worth a trial.

    Three for a common factor, so that as many factors as there may be make two features for a column.
    """
    if n_rows < SPARSE_ROWS or n_columns > SPARSE_COLUMNS:
        return 0
    return min(SPARSE_GROWTH * n_factors, MOST_SPARSE)


def default_batch_size(n_rows: int) -> int:
    """Return a thousand rows, nearly."""
    return min(n_rows, 1024)


def default_steps(n_rows: int, batch_size: int, fewest: int) -> int:
    """Return ten epochs, and at least so many steps."""
    return max(fewest, 10 * -(-n_rows // batch_size))


def default_features(view: str, n_components: int, n_columns: int) -> str:
    """Joint where the algorithm sees draws and the matrices are small enough, else factorised."""
    fits = 8 * n_columns * n_components**2 <= JOINT_BYTES
    return "joint" if view == "sampled" and fits else "factorised"


def default_init(n_columns: int) -> str:
    """Principal components where there are few enough columns, else draws from the prior."""
    return "principal" if n_columns <= FEW_COLUMNS else "random"


def default_noise(n_columns: int) -> str:
    """By column where there are few enough of them to compare."""
    return "columns" if n_columns <= FEW_COLUMNS else "shared"
