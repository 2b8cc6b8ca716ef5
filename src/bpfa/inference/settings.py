"""Everything that decides the result of a fit, apart from the data and the limits on its length."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bpfa._support.philox import Stream
from bpfa.backends.registry import backend_of
from bpfa.inference.algorithms import Algorithm, algorithm
from bpfa.inference.schedule import Schedule
from bpfa.model.priors import Priors

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """The settings that follow from the parameters of a fit. Equal settings and data give equal bits."""

    n_features: int
    algorithm: str
    features: str
    weight_precision: str
    priors: Priors
    batch_size: int
    step_delay: float
    step_decay: float
    init: str
    noise: str
    held_out: float
    options: dict[str, Any]
    """Options of the local method, such as `burn_in`."""
    device: str
    key: int
    """Key of the stream of random numbers."""
    most_features: int = 0
    """The largest number of features that a revision may lead to; 0 if features are not revised."""
    diagnostic: bool = False
    """Whether the held-out entries only serve to judge the model after the fit, and are not scored in it."""
    sparse: str = "rows"
    """Which side of the table is sparse: its "rows" or its "columns"."""
    least_step: float = 0.0
    """The least step size; above 0 for data that changes."""
    prefer: str = "prediction"
    """What the fit is to be best at, as in `bpfa.selection.preferences`."""

    @property
    def stream(self) -> Stream:
        """The source of every random number."""
        return Stream(self.key)

    @property
    def schedule(self) -> Schedule:
        """The step sizes."""
        return Schedule(self.step_delay, self.step_decay, self.least_step)

    def make_algorithm(self, n_jobs: int | None) -> Algorithm:
        """Return the algorithm on its device, with its options."""
        return algorithm(self.algorithm, device=self.device, **self.local_options(n_jobs))

    def local_options(self, n_jobs: int | None) -> dict[str, Any]:
        """Return the options of the local method, with the number of threads if the backend uses threads."""
        threads = {"n_jobs": n_jobs} if backend_of(self.device).uses_threads else {}
        return self.options | threads

    def document(self) -> dict[str, Any]:
        """Return the settings in a form that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Settings:
        """Return the settings of a document."""
        return cls(**{**document, "priors": Priors(**document["priors"])})
