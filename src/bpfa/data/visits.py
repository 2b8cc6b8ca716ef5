"""How a run visits the rows: in shuffled epochs without end, or once in their order."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol

from bpfa._support.checks import check_integer
from bpfa._support.philox import Stream
from bpfa.data.blocks import sequential
from bpfa.data.rows import Batch, Rows
from bpfa.data.shuffle import read_batches

__all__ = ["ShuffledEpochs", "SinglePass", "Visits"]


class Visits(Protocol):
    """An order of visits, which says how far through the data a step has come.

    See Also
    --------
    bpfa.data.ShuffledEpochs : Pass after pass in shuffled order.
    bpfa.data.SinglePass : Every row once.
    """

    @property
    def repeated(self) -> bool:
        """Whether rows are visited more than once, so that it pays to keep them on a device."""

    def n_rows(self, rows: Rows) -> int:
        """Return the size N of the data set that the rows are part of.

        Parameters
        ----------
        rows : Rows

        Returns
        -------
        int

        See Also
        --------
        bpfa.data.Visits.rows_seen : How many of them the model knows.

        Examples
        --------
        >>> import numpy as np
        >>> from bpfa.data import ArrayRows
        >>> rows, visits = ArrayRows(np.eye(10)), ShuffledEpochs(4, Stream.from_seed(0))
        >>> visits.n_rows(rows)
        10
        """

    def batches(self, rows: Any, first_step: int) -> Generator[Batch, None, None]:
        """Yield the batch of every step from this one on.

        Parameters
        ----------
        rows : Rows
        first_step : int

        Yields
        ------
        Batch

        See Also
        --------
        bpfa.data.read_batches : Batches in shuffled order.
        bpfa.data.sequential : Batches in the order of the rows.

        Examples
        --------
        >>> import numpy as np
        >>> from bpfa.data import ArrayRows
        >>> rows, visits = ArrayRows(np.eye(10)), ShuffledEpochs(4, Stream.from_seed(0))
        >>> len(next(visits.batches(rows, 1)))
        4
        """

    def epochs(self, rows: Rows, step: int) -> float:
        """Return how many passes over the data have been made after this step.

        Parameters
        ----------
        rows : Rows
        step : int
            Number of the step, from 1 on.

        Returns
        -------
        float

        See Also
        --------
        bpfa.data.Visits.rows_seen : How many rows the model knows.

        Examples
        --------
        >>> import numpy as np
        >>> from bpfa.data import ArrayRows
        >>> rows, visits = ArrayRows(np.eye(10)), ShuffledEpochs(4, Stream.from_seed(0))
        >>> [visits.epochs(rows, step) for step in (1, 2, 3, 4)]
        [0.4, 0.7, 1.0, 1.4]
        """

    def rows_seen(self, rows: Rows, step: int) -> int:
        """Return how many rows of the data set the model knows after this step.

        Parameters
        ----------
        rows : Rows
        step : int
            Number of the step, from 1 on.

        Returns
        -------
        int

        See Also
        --------
        bpfa.data.Visits.epochs : How many passes have been made.

        Examples
        --------
        >>> import numpy as np
        >>> from bpfa.data import ArrayRows
        >>> rows, visits = ArrayRows(np.eye(10)), ShuffledEpochs(4, Stream.from_seed(0))
        >>> visits.rows_seen(rows, 1)
        10
        """


@dataclass(frozen=True)
class ShuffledEpochs(Visits):
    """Every epoch visits all rows once in a new random order, and epochs never end.

    Parameters
    ----------
    batch_size : int
        Rows of a batch; more than there are means all of them.
    stream : Stream
        Decides the order.

    See Also
    --------
    bpfa.data.SinglePass : Every row once.
    bpfa.data.batch_ids : The rows of each batch.

    Examples
    --------
    >>> import numpy as np
    >>> from bpfa.data import ArrayRows
    >>> rows, visits = ArrayRows(np.eye(10)), ShuffledEpochs(4, Stream.from_seed(0))
    >>> [visits.epochs(rows, step) for step in (1, 2, 3, 4)]
    [0.4, 0.7, 1.0, 1.4]
    >>> visits.n_rows(rows), visits.rows_seen(rows, 1), len(next(visits.batches(rows, 1)))
    (10, 10, 4)
    """

    batch_size: int
    stream: Stream
    repeated = True

    def __post_init__(self) -> None:
        check_integer("batch_size", self.batch_size, low=1)

    def n_rows(self, rows: Rows) -> int:
        """Return the number of rows, which are the whole data set."""
        return rows.n_rows

    def batches(self, rows: Any, first_step: int) -> Generator[Batch, None, None]:
        """Yield the batch of every step from this one on, for ever."""
        return read_batches(rows, self.batch_size, self.stream, first_step)

    def epochs(self, rows: Rows, step: int) -> float:
        """Return how many passes over the data have been made after this step."""
        per_epoch = -(-rows.n_rows // self.batch_size)
        whole, batches_since = divmod(step, per_epoch)
        # The first batches of an epoch have one row more where the batches do not divide it evenly.
        rows_since = batches_since * (rows.n_rows // per_epoch) + min(batches_since, rows.n_rows % per_epoch)
        return whole + rows_since / rows.n_rows

    def rows_seen(self, rows: Rows, step: int) -> int:
        """Return the number of rows: a fit is to all of them, however soon it ends."""
        return rows.n_rows


@dataclass(frozen=True)
class SinglePass(Visits):
    """One visit to every row in the order of the data: a part of a stream of rows.

    Parameters
    ----------
    batch_size : int
    total_rows : int
        Size N of the whole stream, as far as it is known.
    first_id : int
        Id of the first row, so that no two rows of the stream share their random numbers.
    first_step : int
        Number of the first step of this pass.
    epochs_before : float
        Passes made before this one.
    rows_per_epoch : int
        How many rows count as one pass.

    See Also
    --------
    bpfa.data.ShuffledEpochs : Pass after pass in shuffled order.

    Examples
    --------
    >>> import numpy as np
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows(np.eye(10))
    >>> part = SinglePass(4, total_rows=20, first_id=10, first_step=1, epochs_before=0.5, rows_per_epoch=20)
    >>> [batch.ids.tolist() for batch in part.batches(rows, 1)]
    [[10, 11, 12, 13], [14, 15, 16, 17], [18, 19]]
    >>> [(part.epochs(rows, step), part.rows_seen(rows, step)) for step in (1, 2, 3)]
    [(0.7, 14), (0.9, 18), (1.0, 20)]
    >>> part.n_rows(rows)
    20
    """

    batch_size: int
    total_rows: int
    first_id: int
    first_step: int
    epochs_before: float
    rows_per_epoch: int
    repeated = False

    def n_rows(self, rows: Rows) -> int:
        """Return the size of the whole stream."""
        return self.total_rows

    def batches(self, rows: Any, first_step: int) -> Generator[Batch, None, None]:
        """Yield the rows in their order, with the ids that they have in the stream."""
        for batch in sequential(rows, block_rows=self.batch_size):
            yield Batch(batch.values, batch.observed, batch.ids + self.first_id)

    def epochs(self, rows: Rows, step: int) -> float:
        """Return how many passes over the data have been made after this step."""
        return self.epochs_before + self._visited(rows, step) / self.rows_per_epoch

    def rows_seen(self, rows: Rows, step: int) -> int:
        """Return how many rows of the stream have been visited after this step."""
        return self.first_id + self._visited(rows, step)

    def _visited(self, rows: Rows, step: int) -> int:
        """Return how many rows of this part have been visited after a step."""
        return min((step - self.first_step + 1) * self.batch_size, rows.n_rows)
