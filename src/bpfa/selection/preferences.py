"""What a fit is to be best at: predicting entries, or being read (docs/math.md section 12).

The settings were chosen by the measurements of benchmarks/readable.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from bpfa.model.priors import Priors

__all__ = ["PREFERENCES", "Preference", "sparser_priors"]


class Preference(NamedTuple):
    """The settings of a fit that follow from what it is to be best at."""

    init: str
    """Where the features start."""
    dropout: float = 0.0
    """The share of a row's entries that its chain does not see in a step."""
    rows_without_features: float = 0.0
    """The prior expects so many rows that use no feature, for every row of the data."""
    least_probability: float = 1e-3
    """A weight is reported as zero if the row uses the feature with a smaller probability than this."""

    @property
    def reads(self) -> bool:
        """Whether the fit is to be read."""
        return self.init == "varimax"


PREFERENCES = {
    "prediction": Preference("principal"),
    "balance": Preference("varimax", dropout=0.02, least_probability=0.5),
    "readability": Preference("varimax", dropout=0.02, rows_without_features=0.1, least_probability=0.5),
}
"""What a fit can be best at, by the value of the parameter `prefer`."""


def sparser_priors(priors: Priors, rows_without_features: float, n_rows: int, n_features: int) -> Priors:
    """Return priors under which rows use fewer features.

    Parameters
    ----------
    priors : Priors
    rows_without_features : float
        The new prior counts so many more rows without any feature, for every row of the data.
    n_rows, n_features : int
        N and K.

    Examples
    --------
    >>> sparser_priors(Priors(), 0.1, n_rows=1000, n_features=5).beta(5), Priors().beta(5)
    ((2.0, 108.0), (2.0, 8.0))
    """
    # The second parameter of the beta prior of pi_k is b (K - 1) / K.
    b = rows_without_features * n_rows * n_features / max(n_features - 1, 1)
    return replace(priors, b=priors.b + b)
