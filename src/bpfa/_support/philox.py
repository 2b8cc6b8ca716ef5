"""Random numbers: the counter-based generator Philox4x32-10, and how each draw of a fit finds its number.

A draw is a pure function of (seed, purpose, step, row id, sweep, feature). A result therefore never depends
on the number of threads, on how rows are divided into batches, or on the order of the work.

Philox turns a block of four counter words into four random words. The counter words are:

    word 0   index of the block of features
    word 1   sweep (low 16 bits), kind of draw (8 bits), row id bits 32..39 (8 bits)
    word 2   row id bits 0..31
    word 3   step

Feature k takes word (k % 64) // 16 of block 16 (k // 64) + k % 16. With this layout, sixteen vector lanes
that compute sixteen blocks obtain the words of 64 consecutive features without having to rearrange them.

Reference: Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.special.cython_special
from numpy.typing import NDArray
from scipy.special import ndtri

from bpfa._support import _native
from bpfa._support.checks import check_integer

__all__ = ["MAX_ROW_ID", "MAX_SWEEP", "GlobalDraws", "RowDraws", "Stream", "philox4x32", "threshold_word"]

MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (0x9E3779B9, 0xBB67AE85)
LOW_32 = np.uint64(0xFFFFFFFF)

MAX_ROW_ID = 2**40 - 1
MAX_SWEEP = 2**16 - 1

# The compiled inverse of the normal distribution function, which is that of SciPy.
_NDTRI = scipy.special.cython_special.__pyx_capi__["ndtri"]

# Kinds of draw. Different kinds have different counters, so that no two uses share random words.
UNIFORM, NORMAL, GENERATOR, CHILD, GLOBAL = range(5)


def philox4x32(counters: NDArray[np.uint32], key: int) -> NDArray[np.uint32]:
    """Return the Philox4x32-10 blocks of an array of counters.

    Parameters
    ----------
    counters : array of uint32, shape (..., 4)
    key : int
        Of 64 bits; the low half is the first key word.

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
    """All the random numbers that belong to one seed.

    Parameters
    ----------
    key : int
        Of 64 bits.

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
        """Return the stream of an integer seed below 2^64; None takes a seed from the operating system."""
        if seed is None:
            return cls(int(np.random.SeedSequence().generate_state(1, np.uint64)[0]))
        return cls(check_integer("seed", seed, low=0, high=2**64 - 1))

    def child(self, purpose: str) -> Stream:
        """Return an independent stream for another purpose, such as prediction."""
        return Stream(_child_key(self.key, purpose))

    def generator(self, step: int) -> np.random.Generator:
        """Return a NumPy generator for those draws of one step that belong to no row."""
        counter = np.array([[0, GENERATOR << 16, step >> 32, step & 0xFFFFFFFF]], dtype=np.uint32)
        # The compiled `philox4x32`, which takes a tenth of the time.
        _native.philox4x32(counter, self.key)
        return np.random.default_rng(counter[0])

    def globals(self, step: int) -> GlobalDraws:
        """Return the random numbers of the global variables at one step, the same on every device."""
        return GlobalDraws(self.key, step)

    def rows(self, ids: NDArray[np.int64], step: int) -> RowDraws:
        """Return the random numbers of the rows with these ids at one step."""
        return RowDraws(self.key, ids, step)


@lru_cache(maxsize=256)
def _child_key(key: int, purpose: str) -> int:
    # A name of any length is turned into a key: its bytes are absorbed four at a time.
    if not purpose:
        raise ValueError("purpose='': expected a name")
    data = purpose.encode()
    for i in range(0, len(data), 4):
        word = int.from_bytes(data[i : i + 4], "little")
        block = philox4x32(np.array([word, CHILD << 16, len(data), i], dtype=np.uint32), key)
        key = int(block[0]) | int(block[1]) << 32
    return key


class GlobalDraws:
    """The random numbers of the global variables at one step.

    The methods are those of a NumPy generator that sampling a view needs. A number is a pure function of
    (key, step, number of earlier calls, position in the array), so that a GPU draws the same numbers. The
    counter of a block is (block, kind and attempt, call, step).

    Parameters
    ----------
    key : int
    step : int

    Examples
    --------
    >>> nine, five = (GlobalDraws(7, step=1).standard_normal(n) for n in (9, 5))
    >>> bool((nine[:5] == five).all())
    True
    >>> draws = GlobalDraws(7, step=1).standard_gamma(np.full(10_000, 3.0))
    >>> bool(abs(draws.mean() - 3) < 0.1), bool(abs(draws.var() - 3) < 0.2)
    (True, True)
    """

    def __init__(self, key: int, step: int) -> None:
        self.key, self.step = key, step
        self.n_calls = 0

    def standard_normal(self, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Return standard normal numbers."""
        normals = np.empty(size)
        _native.normal_draws(_NDTRI, *self._next_call(), normals.reshape(-1))
        return normals

    def standard_exponential(self, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Return exponential numbers of mean 1."""
        return -np.log(self._uniform(size))

    def standard_gamma(self, shape: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return gamma numbers of scale 1 with these shape parameters; NaN for one that is not finite."""
        shapes = np.asarray(shape, dtype=np.float64, order="C")
        draws = np.empty(shapes.shape)
        _native.gamma_draws(_NDTRI, *self._next_call(), shapes.reshape(-1), draws.reshape(-1))
        return draws

    def log_gamma(self, shapes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithms of gamma numbers, for rows of shape parameters.

        Every row takes the numbers of a call of `standard_gamma` and of one of `standard_exponential`, as
        `bpfa.model.priors.log_gamma_draw` does.
        """
        numbers = np.empty((2, *shapes.shape))
        _native.log_gamma_parts(_NDTRI, self.key, self.n_calls, self.step & 0xFFFFFFFF, shapes, numbers)
        self.n_calls += 2 * len(shapes)
        np.log(numbers, out=numbers)
        logs: NDArray[np.float64] = numbers[0] + numbers[1] / shapes
        return logs

    def integers(self, high: int) -> int:
        """Return an integer from 0 to high - 1."""
        return int(self._uniform(1)[0] * high)

    def gamma(self, shape: float) -> float:
        """Return a gamma number of scale 1 with this shape parameter."""
        return _native.gamma_number(_NDTRI, *self._next_call(), shape)

    def _uniform(self, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        numbers = np.empty(size)
        _native.uniform_draws(*self._next_call(), numbers.reshape(-1))
        return numbers

    def _next_call(self) -> tuple[int, int, int]:
        """Return the key, the number of earlier calls and the step, and count this call."""
        self.n_calls += 1
        return self.key, self.n_calls - 1, self.step & 0xFFFFFFFF


def threshold_word(probability: float) -> int:
    """Return the threshold that a random word of 32 bits is below with this probability.

    Examples
    --------
    >>> threshold_word(0.0), threshold_word(0.25) == 2**30
    (0, True)
    """
    return int(probability * 2**32)


def _uniform_numbers(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Return uniform numbers strictly between 0 and 1, on a grid of 2^32 points."""
    return (words.astype(np.float64) + 0.5) * 2.0**-32


@dataclass(frozen=True)
class RowDraws:
    """The random numbers of some rows at one step: one matrix (rows x features) for every sweep.

    Examples
    --------
    The numbers of a row do not depend on which other rows are drawn with it:

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
        """Return random words, shape (rows, n_features)."""
        n_groups = -(-n_features // 64)
        counters = np.empty((len(self.ids), n_groups, 16, 4), dtype=np.uint32)
        counters[..., 0] = np.arange(16 * n_groups, dtype=np.uint32).reshape(n_groups, 16)
        high = (self.ids >> 32).astype(np.uint32) << np.uint32(24)
        counters[..., 1] = (high | np.uint32(kind << 16 | sweep))[:, None, None]
        counters[..., 2] = (self.ids & 0xFFFFFFFF).astype(np.uint32)[:, None, None]
        counters[..., 3] = np.uint32(self.step & 0xFFFFFFFF)
        blocks = philox4x32(counters, self.key)
        return blocks.swapaxes(2, 3).reshape(len(self.ids), 64 * n_groups)[:, :n_features]

    def dropped(self, share: float, n_columns: int) -> NDArray[np.bool_]:
        """Return which entries to drop, each with probability `share`; shape (rows, n_columns).

        Sweeps over the features count from one. The words of sweep 0 are free, and are used for the columns.
        """
        dropped: NDArray[np.bool_] = self.words(UNIFORM, 0, n_columns) < np.uint32(threshold_word(share))
        return dropped

    def uniform(self, sweep: int, n_features: int) -> NDArray[np.float64]:
        """Return uniform numbers strictly between 0 and 1, on a grid of 2^32 points."""
        return _uniform_numbers(self.words(UNIFORM, sweep, n_features))

    def normal(self, sweep: int, n_features: int) -> NDArray[np.float64]:
        """Return standard normal numbers, by the inverse of the normal distribution function."""
        normals: NDArray[np.float64] = ndtri(_uniform_numbers(self.words(NORMAL, sweep, n_features)))
        return normals
