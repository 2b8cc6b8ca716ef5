"""The algorithms of the paper as a grid: a view of the globals x a local method (docs/math.md section 3)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from bpfa._support.checks import check_choice
from bpfa._support.philox import GlobalDraws
from bpfa.backends import cpu, numpy
from bpfa.backends.cuda import local as cuda
from bpfa.backends.cuda.runtime import named_device
from bpfa.backends.numpy import LocalMethod

__all__ = ["ALGORITHMS", "Algorithm", "algorithm", "check_device"]


class Algorithm(NamedTuple):
    """One cell of the grid, its local method's options included."""

    name: str
    view: Literal["expected", "sampled"]
    local: LocalMethod

    def view_of(self, posterior: Any, rng: np.random.Generator | GlobalDraws) -> Any:
        """Return what the local method is to see of the posterior, where that is."""
        return posterior.expected() if self.view == "expected" else posterior.sampled(rng)

    @property
    def draws_z_given_globals(self) -> bool:
        """Whether z is drawn given the same draw of the globals, so that weights can be integrated out."""
        return self.view == "sampled" and isinstance(self.local, numpy.Gibbs)

    def check_suits(self, posterior: Any, batch: Any) -> None:
        """Refuse what no expected view can show: joint features of rows with missing entries."""
        if self.view == "expected" and posterior.joint and not batch.complete:
            raise ValueError(
                f"features='joint': {self.name!r} sees expectations, and can have joint features only where "
                "no entry is missing; expected features='factorised', or an algorithm that sees a draw, such "
                "as 'gibbs-ssvi'"
            )


class Cell(NamedTuple):
    """A row of the table of algorithms."""

    view: Literal["expected", "sampled"]
    method: Literal["MeanField", "SpikeSlab", "Gibbs"]


ALGORITHMS: dict[str, Cell] = {
    "mf-svi": Cell("expected", "MeanField"),
    "mf-ssvi": Cell("sampled", "MeanField"),
    "titsias-svi": Cell("expected", "SpikeSlab"),
    "titsias-ssvi": Cell("sampled", "SpikeSlab"),
    "mimno-svi": Cell("expected", "Gibbs"),
    "gibbs-ssvi": Cell("sampled", "Gibbs"),
    # The uncollapsed sampler: no variational posterior, but the same view and local method.
    "gibbs": Cell("sampled", "Gibbs"),
}
"""Name -> (view, local method)."""


DEVICES = {"cpu": cpu, "numpy": numpy, "cuda": cuda}
"""Kind of device -> where its local methods are; "numpy" is the readable specification, many times slower."""


def check_device(device: Any) -> str:
    """Return the device that a name stands for: "auto" is a GPU where one can be used, and the CPU elsewhere.

    Examples
    --------
    >>> check_device("cpu")
    'cpu'
    """
    kind = device.split(":")[0] if isinstance(device, str) and device.startswith("cuda:") else device
    check_choice("device", kind, ("auto", *DEVICES))
    return named_device(device)


def algorithm(name: str, *, device: str = "cpu", **options: Any) -> Algorithm:
    """Return an algorithm by name, with options for its local method.

    Parameters
    ----------
    name : str
        "mf-svi", "mf-ssvi", "titsias-svi", "titsias-ssvi", "mimno-svi", "gibbs-ssvi" or "gibbs".
    device : str
        "cpu" for the compiled kernels, "cuda" (or "cuda:1") for those of a GPU, "auto" for a GPU where there
        is one, "numpy" for the specification they are tested against.
    **options
        `burn_in`, `n_samples` and `blocked` for the Gibbs kinds, and `dropout` for "gibbs-ssvi" (see
        `bpfa.backends.numpy.Gibbs`), `n_sweeps` for the others; `dtype`, and `n_jobs` on the CPU.

    Examples
    --------
    >>> algorithm("gibbs-ssvi", device="numpy", burn_in=5).local
    Gibbs(burn_in=5, n_samples=3, blocked=True, dropout=0.0)
    >>> algorithm("gibs")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: algorithm='gibs': expected one of 'mf-svi', 'mf-ssvi', 'titsias-svi', ... 'gibbs'
    """
    cell = ALGORITHMS[check_choice("algorithm", name, tuple(ALGORITHMS))]
    device = check_device(device)
    method = getattr(DEVICES[device.split(":")[0]], cell.method)
    if options.get("dropout") and name != "gibbs-ssvi":
        raise ValueError(f"dropout={options['dropout']}: for 'gibbs-ssvi', not for {name!r}; expected 0")
    for option in options:
        check_choice(f"option of {name!r}", option, tuple(method.__dataclass_fields__))
    if device.startswith("cuda"):
        options["device"] = device
    return Algorithm(name, cell.view, method(**options))
