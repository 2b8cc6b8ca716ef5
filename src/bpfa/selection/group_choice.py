"""Whether rows are predicted better by rows like them, and by which groups (docs/math.md section 23).

Groups of several sizes, with priors of several strengths, predict entries that are hidden from them and from
the model of the whole table. The weights with which they are mixed with that model are those under which the
hidden entries are most probable.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from bpfa._support.checks import Array
from bpfa.model.row_groups import StudentMixture
from bpfa.prediction.groups import GroupMixture

__all__ = [
    "KIND_PRIORS",
    "HiddenDensities",
    "MixtureTrial",
    "candidate_groups",
    "entry_densities",
    "fewest_rows",
    "mixture_weights",
    "student_logpdf",
]

# The sizes of the groups that are tried, as far as the kept rows are at least so many times as many, and the
# numbers of rows that their priors count for.
SIZES, ROWS_PER_MEMBER = (15, 30, 60, 120, 240, 480, 960, 1920), 3
PRIOR_ROWS = (5.0, 40.0, 320.0)
# Into how many kinds all rows are divided, as far as each kind has so many rows on average, and at least one
# for each column; and the numbers of rows that the prior of a kind counts for, as multiples of the columns.
KINDS, ROWS_PER_KIND = (1, 2, 4, 8, 16, 32), 50
# The most numbers that the covariances of all kinds of a division have together, which limits their time.
MOST_NUMBERS = 2**17
KIND_PRIORS = (0.2, 1.6)
# The most columns with which the covariances of groups and kinds are found: the time grows with the cube of
# this number. Groups with the features of the model are tried from so many columns on, with these sizes.
MOST_COLUMNS, FEWEST_COLUMNS, FEATURE_SIZES = 256, 64, (30, 60, 120, 240)
# Groups with a smaller weight are left out, and at most so many are used, because each of them takes time.
LEAST_WEIGHT, MOST_GROUPS = 0.02, 12
# Iterations of EM for the weights.
N_ITERATIONS = 300
# Groups are taken if the gain in log-likelihood is at least this many standard errors.
STANDARD_ERRORS = 2.0


def fewest_rows(n_columns: int) -> int:
    """Return the fewest rows among which like rows are found.

    Examples
    --------
    >>> fewest_rows(10), candidate_groups(45, 10), len(candidate_groups(46, 10).members)
    (46, None, 3)
    >>> fewest_rows(1000), candidate_groups(90, 1000), candidate_groups(91, 1000).feature_members
    (91, None, (30, 30))
    """
    smallest = SIZES[0] if n_columns <= MOST_COLUMNS else FEATURE_SIZES[0]
    return ROWS_PER_MEMBER * smallest + 1


def candidate_groups(n_kept: int, n_columns: int) -> GroupMixture | None:
    """Return the groups and kinds that are tried, with equal weights; None if there are too few rows.

    Parameters
    ----------
    n_kept : int
        Number of kept rows.
    n_columns : int

    Examples
    --------
    >>> candidate_groups(200, 10).members
    (15, 15, 15, 30, 30, 30, 60, 60, 60)
    >>> candidate_groups(200, 10).kinds
    (1, 1, 2, 2, 4, 4)
    >>> candidate_groups(200, 1000).feature_members
    (30, 30, 60, 60)
    >>> candidate_groups(20, 10) is None
    True
    """
    sizes = [size for size in SIZES if ROWS_PER_MEMBER * size <= n_kept - 1]
    if not sizes:
        return None
    narrow = n_columns <= MOST_COLUMNS
    pairs = [(size, rows) for size in sizes for rows in PRIOR_ROWS if narrow]
    rows_per_kind = max(ROWS_PER_KIND, n_columns)
    most = min(n_kept // rows_per_kind, MOST_NUMBERS // n_columns**2)
    kinds = [n for n in KINDS if narrow and n <= max(1, most)]
    features = [
        (size, switched)
        for size in FEATURE_SIZES
        for switched in (False, True)
        if size <= sizes[-1] and n_columns >= FEWEST_COLUMNS
    ]
    n = len(pairs) + len(features) + len(KIND_PRIORS) * len(kinds)
    if not n:
        return None
    return GroupMixture(
        tuple(size for size, _ in pairs),
        tuple(rows for _, rows in pairs),
        (1 / n,) * len(pairs),
        tuple(size for size, _ in features),
        (1 / n,) * len(features),
        tuple(number for number in kinds for _ in KIND_PRIORS),
        tuple(share * n_columns for _ in kinds for share in KIND_PRIORS),
        (1 / n,) * (len(kinds) * len(KIND_PRIORS)),
        tuple(switched for _, switched in features),
    )


def student_logpdf(error: Array, freedom: Array, square_scale: Array) -> Array:
    """Return the log density of a Student t distribution.

    Examples
    --------
    >>> from scipy.stats import t
    >>> found = student_logpdf(np.array(0.7), np.array(5.0), np.array(4.0))
    >>> bool(np.isclose(found, t(5, scale=2).logpdf(0.7)))
    True
    """
    density: Array = gammaln((freedom + 1) / 2) - gammaln(freedom / 2)
    density = density - np.log(np.pi * freedom * square_scale) / 2
    return density - (freedom + 1) / 2 * np.log1p(error**2 / (freedom * square_scale))


def entry_densities(
    found: StudentMixture, truth: Array, at: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> tuple[Array, Array]:
    """Return the log density of single entries under every member of a mixture, and their errors.

    Parameters
    ----------
    found : StudentMixture
    truth : array, shape (entries,)
    at : pair of int arrays
        Row and column of every entry.

    Returns
    -------
    two arrays, shape (members, entries)
    """
    students, n_members = found.rows, int(found.member[-1]) + 1
    error = truth - students.mean[:, *at]
    square_scale = students.square_scale[:, *at].astype(np.float64)
    assert students.log_share is not None
    share = students.log_share[:, at[0]]
    density = share + student_logpdf(error, students.freedom[:, at[0]], square_scale)
    densities, errors = np.full((n_members, len(truth)), -np.inf), np.zeros((n_members, len(truth)))
    for c, member in enumerate(found.member):
        densities[member] = np.logaddexp(densities[member], density[c])
        errors[member] += np.exp(share[c]) * error[c]
    return densities, errors


class HiddenDensities(NamedTuple):
    """What the model of the whole table, and every group, say of the hidden entries."""

    log_density: Array
    """1 + C x entries; the model of the whole table comes first."""
    error: Array
    """Differences between the true values and the means, of the same shape, in standardised units."""
    rows: NDArray[np.int64]
    """The row of every entry."""


def mixture_weights(log_density: Array) -> Array:
    """Return the weights of a mixture under which entries are most probable, by EM.

    Parameters
    ----------
    log_density : array, shape (components, entries)

    Examples
    --------
    >>> mixture_weights(np.log([[0.9, 0.9, 0.1], [0.1, 0.1, 0.9]])).round(2)
    array([0.71, 0.29])
    """
    weights = np.full(len(log_density), 1 / len(log_density))
    # The density of an entry relative to the component that gives it the highest one.
    density = np.exp(log_density - log_density.max(axis=0))
    for _ in range(N_ITERATIONS):
        weights *= density @ (1 / (weights @ density)) / density.shape[1]
    return weights


class MixtureTrial:
    """Chooses the weights of groups, and compares the mixture with the model of the whole table alone.

    Parameters
    ----------
    candidates : GroupMixture
        The groups that were tried; their weights are not used.
    hidden : HiddenDensities

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> log_density = np.log(rng.random((2, 500)))
    >>> log_density[1] += 1.0
    >>> hidden = HiddenDensities(log_density, np.zeros((2, 500)), np.arange(500))
    >>> trial = MixtureTrial(GroupMixture((20,), (5.0,), (1.0,)), hidden)
    >>> trial.is_better, trial.mixture.global_weight < 0.2
    (True, True)
    """

    def __init__(self, candidates: GroupMixture, hidden: HiddenDensities) -> None:
        self._candidates, self._hidden = candidates, hidden
        self.mixture = self._mixture()
        self.gain, self.standard_error, self.error_gain, self.error_of_gain = self._gains()

    @property
    def is_better(self) -> bool:
        """Whether the mixture gives hidden entries a clearly higher density, and no larger squared error.

        Entries of one half of the rows are judged with the weights that those of the other half ask for. The
        squared error may be larger by at most a standard error of the difference.
        """
        denser = self.gain > STANDARD_ERRORS * self.standard_error
        return self.mixture is not None and denser and self.error_gain >= -self.error_of_gain

    @property
    def seems_no_better(self) -> bool:
        """Whether the gain is so small that more entries would hardly show the mixture to be better."""
        return self.mixture is None or self.gain < self.standard_error / 2

    def _mixture(self) -> GroupMixture | None:
        """Return the mixture under which all hidden entries are most probable; None without any group."""
        weights = mixture_weights(self._hidden.log_density)
        order = np.argsort(-weights[1:], kind="stable")[:MOST_GROUPS]
        chosen = np.sort(order[weights[1:][order] >= LEAST_WEIGHT])
        if not len(chosen):
            return None
        weights = mixture_weights(self._hidden.log_density[[0, *(chosen + 1)]])
        return self._candidates.chosen(chosen, weights[1:])

    def _gains(self) -> tuple[float, float, float, float]:
        """Return the gains in log-likelihood and in squared error per entry, with their standard errors."""
        log_density, error, rows = self._hidden
        places, row = np.unique(rows, return_inverse=True)
        gains = np.zeros((2, len(places)))
        for half in range(2):
            judged = row % 2 == half
            if judged.all() or not judged.any():
                return 0.0, 0.0, 0.0, 0.0
            weights = mixture_weights(log_density[:, ~judged])
            with np.errstate(divide="ignore"):
                density = np.logaddexp.reduce(np.log(weights)[:, None] + log_density[:, judged], axis=0)
            gain = density - log_density[0, judged]
            smaller = error[0, judged] ** 2 - (weights @ error[:, judged]) ** 2
            for i, values in enumerate((gain, smaller)):
                gains[i] += np.bincount(row[judged], values, len(places))
        # Entries of a row are dependent; those of different rows are not.
        scale = len(places) / len(rows)
        errors = gains.std(axis=1) / np.sqrt(len(places)) * scale
        means = gains.mean(axis=1) * scale
        return float(means[0]), float(errors[0]), float(means[1]), float(errors[1])
