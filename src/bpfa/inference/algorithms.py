"""The algorithms of the paper as a grid: a view of the globals x a local method (docs/math.md section 3)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from bpfa._support.checks import check_choice
from bpfa._support.philox import GlobalDraws
from bpfa.backends.protocol import Backend
from bpfa.backends.registry import backend_of, check_device
from bpfa.model.local import LocalMethod, MethodName

__all__ = ["ALGORITHMS", "Algorithm", "Cell", "algorithm"]


class Algorithm(NamedTuple):
    """One cell of the grid, with the options of its local method."""

    name: str
    view: Literal["expected", "sampled"]
    local: LocalMethod
    device: str = "numpy"
    """Where the local method runs, such as "cpu" or "cuda:1"."""

    @property
    def backend(self) -> Backend:
        """The backend of the device."""
        return backend_of(self.device)

    def view_of(self, posterior: Any, rng: np.random.Generator | GlobalDraws) -> Any:
        """Return what the local method is to see of the posterior, in the memory where that is."""
        return posterior.expected() if self.view == "expected" else posterior.sampled(rng)

    @property
    def draws_z_given_globals(self) -> bool:
        """Whether z is drawn given the same draw of the globals, so that weights can be integrated out."""
        return self.view == "sampled" and self.local.kind == "Gibbs"

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
    method: MethodName


ALGORITHMS: dict[str, Cell] = {
    "mf-svi": Cell("expected", "MeanField"),
    "mf-ssvi": Cell("sampled", "MeanField"),
    "titsias-svi": Cell("expected", "SpikeSlab"),
    "titsias-ssvi": Cell("sampled", "SpikeSlab"),
    "mimno-svi": Cell("expected", "Gibbs"),
    "gibbs-ssvi": Cell("sampled", "Gibbs"),
    # The uncollapsed sampler has no variational posterior, but the same view and local method.
    "gibbs": Cell("sampled", "Gibbs"),
}
"""Name -> (view, local method)."""


def algorithm(name: str, *, device: str = "cpu", **options: Any) -> Algorithm:
    """Return an algorithm by name, with options for its local method.

    Parameters
    ----------
    name : str
        "mf-svi", "mf-ssvi", "titsias-svi", "titsias-ssvi", "mimno-svi", "gibbs-ssvi" or "gibbs".
    device : str
        "cpu" for the compiled kernels, "cuda" (or "cuda:1") for those of a GPU, "auto" for a GPU if there is
        one, and "numpy" for the specification that the kernels are tested against.
    **options
        `burn_in`, `n_samples` and `blocked` for the Gibbs kinds, and `dropout` for "gibbs-ssvi" (see
        `bpfa.backends.numpy.Gibbs`); `n_sweeps` for the others; `dtype`, and on the CPU `n_jobs`.

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
    backend = backend_of(device)
    if options.get("dropout") and name != "gibbs-ssvi":
        raise ValueError(f"dropout={options['dropout']}: for 'gibbs-ssvi', not for {name!r}; expected 0")
    for option in options:
        check_choice(f"option of {name!r}", option, backend.option_names(cell.method))
    return Algorithm(name, cell.view, backend.local_method(cell.method, device, **options), device)
