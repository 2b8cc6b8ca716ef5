"""Chains that continue between visits: the state of a row's chain is stored until its next visit."""

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
from bpfa.model.local import LocalState, MethodName, RowStart
from bpfa.model.sums import Sums
from bpfa.model.view import GlobalView

__all__ = ["CarriedGibbs", "ChainStore"]

# The number of active features that every row has room for at first.
FIRST_ROOM = 8


class ChainStore:
    """The states of the chains of all rows: the active features of each row, and their weights.

    Features that are off are not stored, so that the size of the store does not depend on K. Every row has
    room for the same number of active features, at eight bytes each; the room grows when a row needs more.

    Parameters
    ----------
    n_rows, n_features : int
        N and K.
    folder : path, optional
        A folder for files that hold the states, and are deleted together with the store. By default the
        states are kept in memory.

    See Also
    --------
    bpfa.train : The training loop.

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
        """How many bytes the states take."""
        return self._counts.nbytes + self._features.nbytes + self._weights.nbytes

    def take(self, ids: NDArray[np.int64]) -> LocalState:
        """Return the states of some rows; a row that was never stored has no active feature.

        Parameters
        ----------
        ids : integer array

        Returns
        -------
        LocalState

        See Also
        --------
        bpfa.ChainStore.put : Store states.

        Examples
        --------
        >>> ChainStore(100, 5).take(np.array([7])).x
        array([[0., 0., 0., 0., 0.]])
        """
        z, w = np.zeros((2, len(ids), self.n_features))
        rows, places = self._used(self._counts[ids])
        features = self._features[ids][rows, places]
        z[rows, features] = 1.0
        w[rows, features] = self._weights[ids][rows, places]
        return LocalState(z, w)

    def put(self, ids: NDArray[np.int64], state: LocalState) -> None:
        """Store the states of some rows.

        Parameters
        ----------
        ids : integer array
        state : LocalState
            With one row for each id.

        See Also
        --------
        bpfa.ChainStore.take : Get them back.

        Examples
        --------
        >>> store = ChainStore(100, 5)
        >>> store.put(np.array([7]), LocalState(np.eye(5)[[2]], np.full((1, 5), 3.0)))
        >>> store.take(np.array([7])).x
        array([[0., 0., 3., 0., 0.]])
        """
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
        """Return the row and the place of every stored feature, given how many features each row has."""
        rows, places = np.nonzero(np.arange(self._room) < counts[:, None])
        return rows, places

    def _make_room(self, room: int) -> None:
        """Give every row room for this number of active features, and keep what is stored."""
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
    """Gibbs sampling of the local variables in which the chain of a row continues from its last visit.

    Except at the first visit of a row, the burn-in then only has to make up for what the globals have changed
    since the last visit; it does not have to find the active features of the row again.

    Parameters
    ----------
    local : Gibbs
        How the chains move, on a backend that `carries_chains`.
    store : ChainStore
        Where the states are stored between visits.

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

    @property
    def continues_from_x(self) -> bool:
        """Whether a chain can continue from x: as the chains of `local` do."""
        return self.local.continues_from_x

    def sums(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart = None, *, joint: bool = False
    ) -> Sums:
        """Return the sums over the rows of a batch, averaged over the kept sweeps; store the last states."""
        stored = self.store.take(batch.ids) if start is None else start
        sums, state = self.local.sums_and_state(view, batch, draws, stored, joint=joint)
        self.store.put(batch.ids, state)
        return sums
