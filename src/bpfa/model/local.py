"""The local variables of rows: states and posteriors of z and w, and what a local method offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from bpfa._support.checks import Array, check_array
from bpfa._support.philox import RowDraws
from bpfa.data import Batch
from bpfa.model.sums import LocalMoments
from bpfa.model.view import GlobalView

__all__ = [
    "LocalMethod",
    "LocalPosterior",
    "LocalState",
    "MethodName",
    "VariationalMethod",
    "checked_start",
    "local_sums",
]

MethodName = Literal["MeanField", "SpikeSlab", "Gibbs"]
"""The local methods of the grid of algorithms (docs/math.md section 3)."""


class LocalState(NamedTuple):
    """Where a local method stands, or where it is to start; each array is rows x features."""

    z: Array
    """A state of z (Gibbs), or its probability theta."""
    w: Array
    """A state of w (Gibbs), or its mean m given z = 1; it has no effect where z is 0."""

    @property
    def x(self) -> Array:
        """The products z w."""
        return self.z * self.w


class LocalPosterior(NamedTuple):
    """q(z_ik = 1) = theta_ik, and w_ik ~ N(m_ik, 1/kappa_ik) where z_ik = 1; arrays are rows x features."""

    theta: Array
    m: Array
    kappa: Array

    @property
    def x(self) -> Array:
        """E[x] = theta m."""
        return self.theta * self.m

    @property
    def state(self) -> LocalState:
        """A state from which a later run may start."""
        return LocalState(self.theta, self.m)


class LocalMethod(Protocol):
    """How the local variables of rows are inferred: given a view of the globals, never their posterior.

    Views, batches and sums are those of the method's own backend: a view in the memory of a device gives sums
    in the memory of that device.
    """

    kind: ClassVar[MethodName]

    def sums(
        self, view: Any, batch: Any, draws: RowDraws, start: LocalState | None = None, *, joint: bool = False
    ) -> Any:
        """Return the sums over the rows of a batch: `LocalSums`, or `JointSums` for joint features."""

    def row_moments(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: LocalState | None = None
    ) -> LocalMoments:
        """Return the moments of each row's local variables, from which the sums are made."""

    def samples(
        self, view: GlobalView, batch: Batch, draws: RowDraws, n_samples: int, start: LocalState | None = None
    ) -> Iterator[Array]:
        """Yield draws of x = z w from the local posterior, each rows x features."""


@runtime_checkable
class VariationalMethod(Protocol):
    """A local method that maximises a bound, which can be evaluated."""

    has_idle_weights: ClassVar[bool]
    """Whether a weight whose feature is off returns to its prior; mean field keeps z and w independent."""

    def bound(self, view: GlobalView, batch: Batch, q: LocalPosterior) -> Array:
        """Return the local bound of each row."""


def local_sums(local: LocalMethod, view: Any, batch: Any, draws: RowDraws, *, joint: bool) -> Any:
    """Return the sums of a batch under a view, which may have more columns than the data.

    The expected view shows the covariance of joint features as additional columns (docs/math.md section 5).
    Rows see zeros there, and the sums are cropped to the columns of the data afterwards.
    """
    sums = local.sums(view, batch.padded_to(view.n_columns), draws, joint=joint)
    return sums.cropped_to(batch.n_columns)


def checked_start(start: LocalState, batch: Batch, n_features: int) -> LocalState:
    """Return copies of the arrays of a start that the caller handed in."""
    shape = (len(batch), n_features)
    z = check_array("start.z", start.z, shape).copy()
    if ((z < 0) | (z > 1)).any():
        raise ValueError(f"start.z: from {z.min()} to {z.max()}; expected numbers from 0 to 1")
    return LocalState(z, check_array("start.w", start.w, shape).copy())
