"""The local variables z and w of rows: their states and posteriors, and what a local method offers."""

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
    "RowStart",
    "VariationalMethod",
    "checked_start",
    "local_sums",
]

MethodName = Literal["MeanField", "SpikeSlab", "Gibbs"]
"""The local methods of the grid of algorithms (docs/math.md section 3)."""


class LocalState(NamedTuple):
    """A state of the local variables, which a local method has reached or is to start from.

    Each array is rows x features.
    """

    z: Array
    """A state of z (Gibbs), or its probability theta."""
    w: Array
    """A state of w (Gibbs), or its mean m given z = 1. It has no effect where z is 0."""

    @property
    def x(self) -> Array:
        """The products z w."""
        return self.z * self.w


RowStart = LocalState | None
"""Where the local variables of rows start: a state, or None for the start that the method itself chooses."""


class LocalPosterior(NamedTuple):
    """q(z_ik = 1) = theta_ik, and w_ik ~ N(m_ik, 1/kappa_ik) where z_ik = 1.

    Each array is rows x features.
    """

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
    """How the local variables of rows are inferred, given a view of the globals and never their posterior.

    The types of views, batches and sums are those of the method's own backend: under a view in the memory of
    a device, the sums are in the memory of that device.
    """

    kind: ClassVar[MethodName]

    @property
    def continues_from_x(self) -> bool:
        """Whether `samples` can continue a chain from a draw of x alone."""

    def sums(
        self, view: Any, batch: Any, draws: RowDraws, start: RowStart = None, *, joint: bool = False
    ) -> Any:
        """Return the sums over the rows of a batch: `LocalSums`, or `JointSums` for joint features."""

    def row_moments(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart = None
    ) -> LocalMoments:
        """Return the moments of each row's local variables, of which the sums are made."""

    def samples(
        self, view: GlobalView, batch: Batch, draws: RowDraws, n_samples: int, start: RowStart = None
    ) -> Iterator[Array]:
        """Yield draws of x = z w from the local posterior, each rows x features."""


@runtime_checkable
class VariationalMethod(Protocol):
    """A local method that maximises a bound, and can evaluate it."""

    has_idle_weights: ClassVar[bool]
    """Whether q(w) is the prior where z = 0; in mean field, q(w) does not depend on z."""

    def bound(self, view: GlobalView, batch: Batch, q: LocalPosterior) -> Array:
        """Return the local bound of each row."""


def local_sums(local: LocalMethod, view: Any, batch: Any, draws: RowDraws, *, joint: bool) -> Any:
    """Return the sums of a batch under a view, which may have more columns than the data.

    The expected view has the covariance of joint features as additional columns (docs/math.md section 5). The
    rows are padded with zeros there, and the sums are cropped to the columns of the data afterwards.
    """
    sums = local.sums(view, batch.padded_to(view.n_columns), draws, joint=joint)
    return sums.cropped_to(batch.n_columns)


def checked_start(start: LocalState, batch: Batch, n_features: int) -> LocalState:
    """Return a copy of a start that the caller passed in, after checking it."""
    shape = (len(batch), n_features)
    z = check_array("start.z", start.z, shape).copy()
    if ((z < 0) | (z > 1)).any():
        raise ValueError(f"start.z: from {z.min()} to {z.max()}; expected numbers from 0 to 1")
    return LocalState(z, check_array("start.w", start.w, shape).copy())
