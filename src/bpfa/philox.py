"""The counter-based generator Philox4x32-10, and how the draws of a fit are keyed.

A draw is a pure function of (seed, purpose, step, row id, sweep, feature), so a result never depends on the
number of threads, on how rows are split into batches, or on the order of the work.

One Philox block has four counter words and gives four random words:

    word 0   index of the block of features
    word 1   sweep (low 16 bits), kind of draw (8 bits), row id bits 32..39 (8 bits)
    word 2   row id bits 0..31
    word 3   step

Features are laid out so that sixteen vector lanes computing sixteen blocks get the words of 64 consecutive
features without a shuffle: feature k takes word (k % 64) // 16 of block 16 (k // 64) + k % 16.

Reference: Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bpfa._checks import check_integer

__all__ = ["MAX_ROW_ID", "MAX_SWEEP", "RowDraws", "Stream", "philox4x32"]

MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (0x9E3779B9, 0xBB67AE85)
LOW_32 = np.uint64(0xFFFFFFFF)

MAX_ROW_ID = 2**40 - 1
MAX_SWEEP = 2**16 - 1

# Kinds of draw: they keep the words of different uses apart.
UNIFORM, NORMAL, GENERATOR, CHILD = range(4)


def philox4x32(counters: NDArray[np.uint32], key: int) -> NDArray[np.uint32]:
    """Philox4x32-10 blocks of an array of counters.

    Parameters
    ----------
    counters : array of uint32, shape (..., 4)
    key : int
        64 bits; the low half is the first key word.

    Returns
    -------
    array of uint32, shape (..., 4)

    Examples
    --------
    The first of the known-answer vectors published with Random123:

    >>> import numpy as np
    >>> [hex(word) for word in philox4x32(np.zeros(4, dtype=np.uint32), key=0)]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    x0, x1, x2, x3 = (counters[..., j].astype(np.uint64) for j in range(4))
    key0, key1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        product0, product1 = MULTIPLIERS[0] * x0, MULTIPLIERS[1] * x2
        x0, x1, x2, x3 = (
            (product1 >> np.uint64(32)) ^ x1 ^ np.uint64(key0),
            product1 & LOW_32,
            (product0 >> np.uint64(32)) ^ x3 ^ np.uint64(key1),
            product0 & LOW_32,
        )
        key0, key1 = (key0 + WEYL[0]) & 0xFFFFFFFF, (key1 + WEYL[1]) & 0xFFFFFFFF
    return np.stack([x0, x1, x2, x3], axis=-1).astype(np.uint32)


@dataclass(frozen=True)
class Stream:
    """All the random numbers of one seed.

    Parameters
    ----------
    key : int
        64 bits.

    Examples
    --------
    >>> stream = Stream.from_seed(7)
    >>> stream.child("prediction") == stream
    False
    >>> bool(stream.generator(step=3).random() == stream.generator(step=3).random())
    True
    """

    key: int

    @classmethod
    def from_seed(cls, seed: int | None) -> Stream:
        """Stream of an integer seed below 2^64, or of fresh entropy when `seed` is None."""
        if seed is None:
            return cls(int(np.random.SeedSequence().generate_state(1, np.uint64)[0]))
        return cls(check_integer("seed", seed, low=0, high=2**64 - 1))

    def child(self, purpose: str) -> Stream:
        """Return an independent stream for another purpose, such as prediction."""
        # A name of any length becomes a key by absorbing its bytes four at a time.
        if not purpose:
            raise ValueError("purpose='': expected a name")
        key, data = self.key, purpose.encode()
        for i in range(0, len(data), 4):
            word = int.from_bytes(data[i : i + 4], "little")
            block = philox4x32(np.array([word, CHILD << 16, len(data), i], dtype=np.uint32), key)
            key = int(block[0]) | int(block[1]) << 32
        return Stream(key)

    def generator(self, step: int) -> np.random.Generator:
        """NumPy generator for the draws of one step that belong to no row."""
        counter = np.array([0, GENERATOR << 16, step >> 32, step & 0xFFFFFFFF], dtype=np.uint32)
        return np.random.default_rng(philox4x32(counter, self.key))

    def rows(self, ids: NDArray[np.int64], step: int) -> RowDraws:
        """Draws of the rows with these ids at one step."""
        return RowDraws(self.key, ids, step)


@dataclass(frozen=True)
class RowDraws:
    """The random numbers of some rows at one step: a matrix (rows x features) for every sweep.

    Examples
    --------
    Splitting the rows does not change their numbers:

    >>> stream = Stream.from_seed(0)
    >>> both = stream.rows(np.array([5, 9]), step=1).uniform(sweep=1, n_features=3)
    >>> alone = stream.rows(np.array([9]), step=1).uniform(sweep=1, n_features=3)
    >>> bool((both[1] == alone[0]).all())
    True
    """

    key: int
    ids: NDArray[np.int64]
    step: int

    def words(self, kind: int, sweep: int, n_features: int) -> NDArray[np.uint32]:
        """Random words, shape (rows, n_features)."""
        n_groups = -(-n_features // 64)
        counters = np.empty((len(self.ids), n_groups, 16, 4), dtype=np.uint32)
        counters[..., 0] = np.arange(16 * n_groups, dtype=np.uint32).reshape(n_groups, 16)
        high = (self.ids >> 32).astype(np.uint32) << np.uint32(24)
        counters[..., 1] = (high | np.uint32(kind << 16 | sweep))[:, None, None]
        counters[..., 2] = (self.ids & 0xFFFFFFFF).astype(np.uint32)[:, None, None]
        counters[..., 3] = np.uint32(self.step & 0xFFFFFFFF)
        blocks = philox4x32(counters, self.key)
        return blocks.swapaxes(2, 3).reshape(len(self.ids), 64 * n_groups)[:, :n_features]

    def uniform(self, sweep: int, n_features: int) -> NDArray[np.float64]:
        """Uniform numbers strictly between 0 and 1, on a grid of 2^32 points."""
        return self._grid(UNIFORM, sweep, n_features)

    def normal(self, sweep: int, n_features: int) -> NDArray[np.float64]:
        """Standard normal numbers, by the inverse of the normal distribution function."""
        normals: NDArray[np.float64] = ndtri(self._grid(NORMAL, sweep, n_features))
        return normals

    def _grid(self, kind: int, sweep: int, n_features: int) -> NDArray[np.float64]:
        return (self.words(kind, sweep, n_features).astype(np.float64) + 0.5) * 2.0**-32
