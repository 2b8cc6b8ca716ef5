"""Chains that go on: where a row's chain stood is kept until the row is visited again."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import check_integer
from bpfa._support.philox import RowDraws
from bpfa.backends.numpy import Gibbs
from bpfa.data import Batch
from bpfa.model.local import LocalState, MethodName
from bpfa.model.sums import Sums
from bpfa.model.view import GlobalView

__all__ = ["CarriedGibbs", "ChainStore"]

# Active features that a row is given room for at first.
FIRST_ROOM = 8


class ChainStore:
    """The states of the chains of all rows: of each row its active features and their weights.

    Idle features are not stored, so that a row takes eight bytes for each feature that the row with the most
    of them has, whatever K is.

    Parameters
    ----------
    n_rows, n_features : int
        N and K.
    folder : path, optional
        Where the states are put into files, which are gone with the store; in memory by default.

    Examples
    --------
    >>> store = ChainStore(100, 5)
    >>> store.put(np.array([7]), LocalState(np.eye(5)[[2]], np.full((1, 5), 3.0)))
    >>> store.take(np.array([7, 8])).x
    array([[0., 0., 3., 0., 0.],
           [0., 0., 0., 0., 0.]])
    """

    _features: NDArray[np.int32]
    _weights: NDArray[np.float32]

    def __init__(self, n_rows: int, n_features: int, folder: str | Path | None = None) -> None:
        self.n_rows = check_integer("n_rows", n_rows, low=1)
        self.n_features = check_integer("n_features", n_features, low=1)
        self._folder = None
        if folder is not None:
            self._folder = Path(mkdtemp(prefix="bpfa-chains-", dir=folder))
            weakref.finalize(self, rmtree, self._folder, ignore_errors=True)
        self._counts = np.zeros(self.n_rows, np.int32)
        self._room = 0
        self._make_room(min(FIRST_ROOM, self.n_features))

    @property
    def nbytes(self) -> int:
        """Bytes that the states take."""
        return self._counts.nbytes + self._features.nbytes + self._weights.nbytes

    def take(self, ids: NDArray[np.int64]) -> LocalState:
        """Return where the chains of some rows stand; a row that was never there has no active feature."""
        z, w = np.zeros((2, len(ids), self.n_features))
        rows, places = self._used(self._counts[ids])
        features = self._features[ids][rows, places]
        z[rows, features] = 1.0
        w[rows, features] = self._weights[ids][rows, places]
        return LocalState(z, w)

    def put(self, ids: NDArray[np.int64], state: LocalState) -> None:
        """Keep where the chains of some rows stand."""
        counts = np.count_nonzero(state.z, axis=1).astype(np.int32)
        if (needed := int(counts.max(initial=0))) > self._room:
            self._make_room(min(self.n_features, 2 * needed))
        active_rows, active = np.nonzero(state.z)
        rows, places = self._used(counts)
        features = np.zeros((len(ids), self._room), np.int32)
        weights = np.zeros((len(ids), self._room), np.float32)
        features[rows, places] = active
        weights[rows, places] = state.w[active_rows, active]
        self._counts[ids], self._features[ids], self._weights[ids] = counts, features, weights

    def _used(self, counts: NDArray[np.int32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return rows and places of what is stored of rows with so many active features, row by row."""
        rows, places = np.nonzero(np.arange(self._room) < counts[:, None])
        return rows, places

    def _make_room(self, room: int) -> None:
        """Give every row room for so many active features, and keep what is stored."""
        for name, dtype in (("_features", np.int32), ("_weights", np.float32)):
            wider = self._zeros(f"{name}{room}", (self.n_rows, room), dtype)
            if self._room:
                narrow = getattr(self, name)
                wider[:, : self._room] = narrow
            setattr(self, name, wider)
        self._room = room

    def _zeros(self, name: str, shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
        if self._folder is None:
            return np.zeros(shape, dtype)
        return np.memmap(self._folder / name, dtype, "w+", shape=shape)


@dataclass(frozen=True)
class CarriedGibbs:
    """Gibbs sampling of the local variables that begins where a row's chain stood at the last visit.

    Burn-in is then needed for what the globals have moved since, and for the first visit, not to find the
    row's active features again.

    Parameters
    ----------
    local : Gibbs
        How the chains move, of the CPU.
    store : ChainStore

    Examples
    --------
    >>> from bpfa._support.philox import Stream
    >>> view = GlobalView(np.eye(2), np.zeros((2, 1)), np.zeros(2), g_o=100.0, g_w=0.1)
    >>> batch, store = Batch([[3.0, 0.0]]), ChainStore(1, 2)
    >>> CarriedGibbs(Gibbs(), store).sums(view, batch, Stream.from_seed(0).rows(batch.ids, step=1)).n
    array([1., 0.])
    >>> store.take(batch.ids).z
    array([[1., 0.]])
    """

    kind: ClassVar[MethodName] = "Gibbs"
    local: Gibbs
    store: ChainStore

    def sums(
        self,
        view: GlobalView,
        batch: Batch,
        draws: RowDraws,
        start: LocalState | None = None,
        *,
        joint: bool = False,
    ) -> Sums:
        """Return the sums over the rows of a batch, averaged over the kept sweeps, and store the states."""
        stored = self.store.take(batch.ids) if start is None else start
        sums, state = self.local.sums_and_state(view, batch, draws, stored, joint=joint)
        self.store.put(batch.ids, state)
        return sums
