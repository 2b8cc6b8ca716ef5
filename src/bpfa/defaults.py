"""What a fit uses where the user does not say, by the shape of the data (see benchmarks/defaults.py)."""

from __future__ import annotations

__all__ = ["default_batch_size", "default_components", "default_features", "default_steps"]

# Bytes that the precision matrices of joint features may take.
JOINT_BYTES = 512 * 2**20


def default_components(n_rows: int, n_columns: int) -> int:
    """Twice the columns, from 8 to 256, and no more than the rows: what is not needed stays unused."""
    return max(1, min(n_rows, 256, max(8, 2 * n_columns)))


def default_batch_size(n_rows: int) -> int:
    """A thousand rows."""
    return min(n_rows, 1024)


def default_steps(n_rows: int, batch_size: int) -> int:
    """Ten epochs, and at least 500 steps."""
    return max(500, 10 * -(-n_rows // batch_size))


def default_features(view: str, n_components: int, n_columns: int) -> str:
    """Joint where the algorithm sees draws and the matrices are small enough, else factorised."""
    fits = 8 * n_columns * n_components**2 <= JOINT_BYTES
    return "joint" if view == "sampled" and fits else "factorised"


# Sweeps of the uncollapsed sampler.
SWEEPS = 100
