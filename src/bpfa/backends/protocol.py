"""What a backend, which is a kind of device, offers to the layers above it.

To add a backend, add a folder with a module `backend.py` that implements `Backend`, and list it in
`bpfa.backends.registry`. Nothing outside the folder knows how the backend stores rows, posteriors or sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.backends.frames import FrameDevice, FrameForm
from bpfa.backends.groups import GroupKernels
from bpfa.backends.row_groups import RowGroupKernels
from bpfa.data import Batch, Rows, RowSource, Visits
from bpfa.data.overlap import Restored
from bpfa.data.patches import PatchRows
from bpfa.data.prepared import prepared
from bpfa.model.collapsed import MissingEntries, add_draws
from bpfa.model.local import LocalMethod, MethodName
from bpfa.model.marginals import Signal
from bpfa.model.posterior import GlobalPosterior, Posterior
from bpfa.model.view import GlobalView

__all__ = ["Backend", "MakeStep", "PlacedPosterior", "Step", "Workspace"]


@dataclass(frozen=True)
class Step:
    """One step of a run: everything that decides it apart from the posterior and the batch."""

    algorithm: Any
    number: Any
    """Counted from 1. A device may put an object of its own here, which its kernels read the number from."""
    rho: Any
    """Size of the step; the same holds for it."""
    stream: Stream
    """The source of every random number of the run."""


MakeStep = Callable[[Any, Any, Step], Any]
"""From a posterior, a batch and a `Step` to the posterior after the step."""


class PlacedPosterior(Posterior, Protocol):
    """A posterior in the memory in which a run takes place: what the loop asks of it."""

    @property
    def n_rows(self) -> int:
        """Size N of the whole data set."""

    @property
    def joint(self) -> bool:
        """Whether the features are joint."""

    def expected(self) -> Any:
        """Return the expected view, in the same memory."""

    def step(self, sums: Any, rho: Any, g_o: Any) -> Any:
        """Return the posterior after a step of size rho; sums and g_o are in the same memory."""


class Workspace:
    """Where a run takes place. This one is the memory of the host, where everything is already."""

    def place_posterior(self, posterior: GlobalPosterior) -> PlacedPosterior:
        """Return the posterior in the memory where the run needs it."""
        return posterior

    def place_rows(self, rows: Rows) -> Any:
        """Return rows that will be visited many times in the memory where the run needs them."""
        return prepared(rows)

    def batches(self, visits: Visits, rows: Any, first_step: int) -> Generator[Any, None, None]:
        """Yield the batch of every step from this one on; `rows` are what `place_rows` returned."""
        return visits.batches(rows, first_step)

    def step(self, make_step: MakeStep, posterior: Any, batch: Any, step: Step) -> Any:
        """Return what `make_step` returns; a device may replay a recording of the step instead."""
        return make_step(posterior, batch, step)


class Backend(ABC):
    """One kind of device.

    The methods that are not abstract suit every backend whose arrays are in the memory of the host.
    """

    name: ClassVar[str]
    """The value of the parameter `device` that selects this backend."""
    has_numbered_devices: ClassVar[bool] = False
    """Whether a number may follow the name, as in "cuda:1", to select one of several devices."""
    uses_threads: ClassVar[bool] = False
    """Whether its local methods take the option `n_jobs`."""
    carries_chains: ClassVar[bool] = True
    """Whether its chains can start from states in a `ChainStore` and return their last states to it."""

    methods: ClassVar[Mapping[MethodName, Any]]
    """The classes of its local methods, by kind. Each is a dataclass whose fields are its options."""
    groups: ClassVar[GroupKernels]
    """The kernels for groups of like patches of a picture."""
    row_groups: ClassVar[RowGroupKernels]
    """The kernels for groups of like rows of a table."""

    def local_method(self, kind: MethodName, device: str, **options: Any) -> LocalMethod:
        """Return a local method that runs on the given device of this kind."""
        method: LocalMethod = self.methods[kind](**options)
        return method

    def option_names(self, kind: MethodName) -> tuple[str, ...]:
        """Return the names of the options that `local_method` takes; the device is an argument of its own."""
        return tuple(field.name for field in fields(self.methods[kind]) if field.name != "device")

    @abstractmethod
    def signal(self, on: NDArray[np.bool_], phi: Array, g_o: float, g_w: float, batch: Batch) -> Signal:
        """Return `bpfa.model.marginals.signal`: the entries of rows given which features are on."""

    def add_draws(
        self,
        found: MissingEntries,
        views: Sequence[GlobalView],
        batch: Batch,
        stream: Stream,
        n_sweeps: int,
        *,
        n_jobs: int | None = None,
    ) -> None:
        """Do what `bpfa.model.collapsed.add_draws` does, on `n_jobs` threads if the backend has threads."""
        add_draws(found, views, batch, stream, n_sweeps)

    def problem(self) -> str | None:
        """Return why no device of this kind can be used and what to do about it, or None if one can."""
        return None

    def description(self) -> str:
        """Return, for people, which device of this kind would be used."""
        return self.name

    @contextmanager
    def workspace(self, device: str, local: LocalMethod) -> Iterator[Workspace]:
        """Open a workspace on a device for a run of one of its local methods."""
        yield Workspace()

    def owns(self, data: Any) -> bool:
        """Return whether data is an array in the memory of a device of this kind."""
        return False

    def rows_of(self, data: Any) -> RowSource:
        """Return the rows of an array that this backend owns."""
        raise TypeError(f"data: {type(data).__name__}; not an array of {self.name!r}")

    def array_like(self, values: NDArray[Any], data: Any) -> Any:
        """Return values from the host as an array of the same library, and on the same device, as `data`."""
        return values

    def restore_patches(
        self,
        rows: PatchRows,
        posterior: Posterior,
        algorithm: Any,
        *,
        n_draws: int,
        n_samples: int,
        stream: Stream,
        n_threads: int = 1,
        verbose: int = 0,
    ) -> Restored | None:
        """Predict all patches of a picture and average them without leaving the backend.

        Only a backend on the host uses threads and shows a progress bar.

        Returns None if the backend cannot do so; `bpfa.images` then restores the picture on the host.
        """
        return None

    def frames(
        self,
        form: FrameForm,
        algorithm: Any,
        n_features: int,
        *,
        n_draws: int,
        n_samples: int,
        stream: Stream,
    ) -> FrameDevice | None:
        """Return memory and kernels for frames of one form, which are kept from frame to frame.

        Returns None if the backend has none for frames of this form; they are then restored like any picture.
        """
        return None
