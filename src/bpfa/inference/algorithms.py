"""The algorithms of the paper as a grid: a view of the globals x a local method (docs/math.md section 3).

All of them except the sampler share the loop in `bpfa.inference.svi`, so that an algorithm is no more than a
line of `ALGORITHMS`:

- For a new combination of a view and a local method, add a line.
- For a new local method, first add its name to `bpfa.model.local.MethodName`, write it in
  `bpfa.backends.numpy` as a `LocalMethod`, and list it in `methods` of every backend that offers it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from bpfa._support.checks import check_choice
from bpfa._support.philox import GlobalDraws
from bpfa.backends.protocol import Backend
from bpfa.backends.registry import backend_of, check_device
from bpfa.model.local import LocalMethod, MethodName

__all__ = ["ALGORITHMS", "Algorithm", "Cell", "algorithm"]


ViewName = Literal["expected", "sampled"]
"""What a local method sees of the globals: their expectations, or a draw."""


class Algorithm(NamedTuple):
    """A cell of the grid on a device, with the options of its local method.

    See Also
    --------
    bpfa.algorithm : An algorithm by its name.
    bpfa.ALGORITHMS : All algorithms by name.

    References
    ----------
    .. [1] A. Shah, D. A. Knowles and Z. Ghahramani, "An Empirical Study of Stochastic Variational Algorithms
       for the Beta Bernoulli Process", ICML (2015).

    Examples
    --------
    >>> algorithm("gibbs-ssvi", device="numpy").view
    'sampled'
    """

    name: str
    """Its name in `ALGORITHMS`."""
    view: ViewName
    """What the local method sees of the globals: "expected" or "sampled"."""
    local: LocalMethod
    """How the local variables of a row are inferred."""
    device: str = "numpy"
    """The device that the local method runs on, such as "cpu" or "cuda:1"."""

    @property
    def backend(self) -> Backend:
        """The backend of the device."""
        return backend_of(self.device)

    def view_of(self, posterior: Any, rng: np.random.Generator | GlobalDraws) -> Any:
        """Return the view of the posterior that the local method sees, in the memory of the posterior.

        Parameters
        ----------
        posterior : GlobalPosterior or ChainPosterior
        rng : Generator or GlobalDraws
            Used by algorithms that see a draw.

        Returns
        -------
        GlobalView

        See Also
        --------
        bpfa.GlobalPosterior.expected : The expected view.
        bpfa.GlobalPosterior.sampled : The sampled view.

        Examples
        --------
        >>> from bpfa.data import ArrayRows
        >>> from bpfa.inference.starts import random_posterior
        >>> posterior = random_posterior(ArrayRows(np.eye(4)), 3, seed=0)
        >>> algorithm("mf-svi").view_of(posterior, np.random.default_rng(0)).phi.shape
        (3, 4)
        """
        return posterior.expected() if self.view == "expected" else posterior.sampled(rng)

    @property
    def draws_z_given_globals(self) -> bool:
        """Whether z is drawn given a draw of the globals, so that weights can be integrated out exactly."""
        return self.view == "sampled" and self.local.kind == "Gibbs"

    def check_suits(self, posterior: Any, batch: Any) -> None:
        """Refuse joint features where entries are missing if the algorithm needs an expected view of them.

        Parameters
        ----------
        posterior : GlobalPosterior or ChainPosterior
        batch : Batch

        See Also
        --------
        bpfa.BPFA : Its parameter `features` chooses the form of the posterior.

        Examples
        --------
        >>> from bpfa.data import ArrayRows, Batch
        >>> from bpfa.inference.starts import random_posterior
        >>> posterior = random_posterior(ArrayRows(np.eye(4)), 3, seed=0)
        >>> algorithm("mf-svi").check_suits(posterior, Batch([[1.0, 0.0, 0.0, np.nan]]))
        """
        if self.view == "expected" and posterior.joint and not batch.complete:
            raise ValueError(
                f"features='joint': {self.name!r} sees expectations, and can have joint features only where "
                "no entry is missing; expected features='factorised', or an algorithm that sees a draw, such "
                "as 'gibbs-ssvi'"
            )


class Cell(NamedTuple):
    """A cell of the grid: what is seen of the globals, and how the local variables are inferred."""

    view: ViewName
    method: MethodName


ALGORITHMS: dict[str, Cell] = {
    "mf-svi": Cell("expected", "MeanField"),
    "mf-ssvi": Cell("sampled", "MeanField"),
    "titsias-svi": Cell("expected", "SpikeSlab"),
    "titsias-ssvi": Cell("sampled", "SpikeSlab"),
    "mimno-svi": Cell("expected", "Gibbs"),
    "gibbs-ssvi": Cell("sampled", "Gibbs"),
    # The uncollapsed sampler has no variational posterior, but it has the same view and local method.
    "gibbs": Cell("sampled", "Gibbs"),
}
"""All algorithms by name."""


def algorithm(name: str, *, device: str = "cpu", **options: Any) -> Algorithm:
    """Return an algorithm by name, with options for its local method.

    Parameters
    ----------
    name : str
        "mf-svi", "mf-ssvi", "titsias-svi", "titsias-ssvi", "mimno-svi", "gibbs-ssvi" or "gibbs".
    device : str
        "cpu" for the compiled kernels, "cuda" (or "cuda:1") for those of a GPU, "auto" for a GPU if one can
        be used and else the CPU, and "numpy" for the specification that the kernels are tested against.
    **options
        Options of the local method: `burn_in`, `n_samples` and `blocked` where it is Gibbs sampling, and
        `dropout` for "gibbs-ssvi" (see `bpfa.backends.numpy.Gibbs`); `n_sweeps` for the other algorithms;
        `dtype` for "cpu" and "cuda", and `n_jobs` for "cpu".

    Returns
    -------
    Algorithm

    See Also
    --------
    bpfa.ALGORITHMS : All algorithms by name.
    bpfa.train : The training loop.

    References
    ----------
    .. [1] A. Shah, D. A. Knowles and Z. Ghahramani, "An Empirical Study of Stochastic Variational Algorithms
       for the Beta Bernoulli Process", ICML (2015).

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
