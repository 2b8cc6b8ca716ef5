"""What a kind of device offers to the layers above it.

A backend is a folder with a module `backend.py` that implements `Backend`, and a line in
`bpfa.backends.registry`. Nothing outside its folder knows how it keeps rows, posteriors or sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Batch, Rows, RowSource
from bpfa.data.overlap import Restored
from bpfa.data.patches import PatchRows
from bpfa.model.local import LocalMethod, MethodName
from bpfa.model.marginals import Signal
from bpfa.model.posterior import GlobalPosterior, Posterior

__all__ = ["Backend", "Step", "Workspace"]

Step = Callable[..., Any]
"""From a posterior, a batch, an algorithm, `step`, `rho` and `stream` to the posterior after a step."""


class Workspace:
    """Where a run happens. This one is the memory of the host, where everything already is.

    A posterior that a workspace has placed offers `expected()` and `sampled(draws)`, which return views;
    `step(sums, rho, g_o)`, which returns the posterior after a step; and all of `Posterior`.
    """

    def place_posterior(self, posterior: GlobalPosterior) -> Any:
        """Return the posterior where the run needs it."""
        return posterior

    def place_rows(self, rows: Rows) -> Any:
        """Return the rows where the run needs them, for rows that are visited many times."""
        return rows

    def step(
        self,
        make_step: Step,
        posterior: Any,
        batch: Any,
        algorithm: Any,
        *,
        step: int,
        rho: float,
        stream: Stream,
    ) -> Any:
        """Return what `make_step` returns; a device may replay a recording of it instead."""
        return make_step(posterior, batch, algorithm, step=step, rho=rho, stream=stream)


class Backend(ABC):
    """One kind of device.

    The methods that are not abstract describe the memory of the host, and serve every backend that has its
    arrays there.
    """

    name: ClassVar[str]
    """What `device` calls it; several devices of the kind are told apart by a number, as in "cuda:1"."""
    uses_threads: ClassVar[bool] = False
    """Whether its local methods take `n_jobs`."""
    carries_chains: ClassVar[bool] = True
    """Whether a chain can be started from, and stored in, a `ChainStore`."""

    methods: ClassVar[Mapping[MethodName, Any]]
    """The classes of its local methods, which are dataclasses of their options."""

    def local_method(self, kind: MethodName, device: str, **options: Any) -> LocalMethod:
        """Return a local method on a device of this kind."""
        method: LocalMethod = self.methods[kind](**options)
        return method

    def option_names(self, kind: MethodName) -> tuple[str, ...]:
        """Return the options that `local_method` takes."""
        return tuple(self.methods[kind].__dataclass_fields__)

    @abstractmethod
    def signal(self, on: NDArray[np.bool_], phi: Array, g_o: float, g_w: float, batch: Batch) -> Signal:
        """Return `bpfa.model.marginals.signal`: the entries of rows given which features are on."""

    def problem(self) -> str | None:
        """Return why no device of this kind can be used, and what to do about it; None where one can."""
        return None

    def description(self) -> str:
        """Return which device of this kind would be used, for people."""
        return self.name

    @contextmanager
    def workspace(self, device: str, local: LocalMethod) -> Iterator[Workspace]:
        """Enter a device for a run of one of its local methods."""
        yield Workspace()

    def owns(self, data: Any) -> bool:
        """Return whether data is an array in the memory of a device of this kind."""
        return False

    def rows_of(self, data: Any) -> RowSource:
        """Return the rows of an array that this backend owns."""
        raise TypeError(f"data: {type(data).__name__}; not an array of {self.name!r}")

    def array_like(self, values: NDArray[Any], data: Any) -> Any:
        """Return values of the host as an array of the library, and on the device, of an array it owns."""
        return values

    def restore_patches(
        self, rows: PatchRows, posterior: Posterior, algorithm: Any, *, n_draws: int, stream: Stream
    ) -> Restored | None:
        """Predict all patches and average them without leaving the device.

        None where the backend has no way of its own, and the general one of `bpfa.images` has to serve.
        """
        return None
