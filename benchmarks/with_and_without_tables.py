"""Tables on which no setting of groups of like rows was chosen: real ones, and drawn ones of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bpfa import Priors, draw_data
from experiments import Array
from experiments.tables import TableTask, hide

HIDDEN = 0.1
# Drawn tables differ from those of other benchmarks.
SEED = 190


class Task(NamedTuple):
    """A table of which a tenth of the entries is hidden."""

    read: Callable[[], Array]

    def __call__(self, mask: int) -> TableTask:
        """Return the table with the entries of a mask hidden."""
        return hide(self.read(), HIDDEN, mask)


def of_scikit_learn(name: str) -> Task:
    """Return one of the tables that scikit-learn brings along."""

    def read() -> Array:
        from sklearn import datasets

        return np.asarray(getattr(datasets, f"load_{name}")().data, dtype=float)

    return Task(read)


def like_houses() -> Array:
    """Draw tracts of towns: places in clusters, skewed counts, and rooms, as in the California data."""
    rng, n = np.random.default_rng(SEED), 2000
    towns = rng.normal(size=(12, 2)) * [2.0, 2.5]
    town = rng.choice(12, size=n, p=rng.dirichlet(np.ones(12)))
    place = towns[town] + 0.3 * rng.normal(size=(n, 2))
    income = np.exp(0.2 * rng.normal(size=12)[town] + 0.4 * rng.normal(size=n))
    age = np.clip(30 + 8 * rng.normal(size=12)[town] + 8 * rng.normal(size=n), 1, 52)
    rooms = 5 * income**0.3 * np.exp(0.2 * rng.normal(size=n))
    bedrooms = 1 + 0.02 * rooms + 0.05 * rng.standard_t(3, size=n)
    people = np.exp(7 + 0.7 * rng.normal(size=n))
    occupancy = 3 * np.exp(0.2 * rng.normal(size=n)) / income**0.1
    value = np.minimum(income * np.exp(-0.15 * np.abs(place[:, 1]) + 0.3 * rng.normal(size=n)), 4)
    return np.column_stack([income, age, rooms, bedrooms, people, occupancy, place, value])


def from_the_model(n_rows: int, n_columns: int, n_features: int, *, share: float = 0.0) -> Task:
    """Return rows drawn from the model; a row uses this share of the features, or about one of them."""

    def read() -> Array:
        priors = Priors(a=share * n_features, b=(1 - share) * n_features) if share else None
        return draw_data(n_rows, n_columns, n_features, g_o=25.0, g_w=1.0, priors=priors, seed=SEED).y

    return Task(read)


def normal_factors(n_rows: int, n_columns: int, n_factors: int) -> Task:
    """Return rows of normal factors, all of one kind."""

    def read() -> Array:
        rng = np.random.default_rng(SEED)
        signal = rng.normal(size=(n_rows, n_factors)) @ rng.normal(size=(n_factors, n_columns))
        return signal + 0.7 * np.sqrt(n_factors) * rng.normal(size=signal.shape)

    return Task(read)


def kinds(n_rows: int, n_kinds: int) -> Task:
    """Return rows of kinds that differ in their means and variances."""

    def read() -> Array:
        rng = np.random.default_rng(SEED)
        kind = rng.integers(n_kinds, size=n_rows)
        means, stds = 1.5 * rng.normal(size=(n_kinds, 15)), np.exp(0.4 * rng.normal(size=(n_kinds, 15)))
        return means[kind] + stds[kind] * rng.normal(size=(n_rows, 15))

    return Task(read)


def heavy_tails() -> Array:
    """Draw factors and noise of Student's t distribution with 2.5 degrees of freedom."""
    rng = np.random.default_rng(SEED)
    signal = rng.standard_t(2.5, size=(1000, 4)) @ rng.normal(size=(4, 15))
    return signal + rng.standard_t(2.5, size=signal.shape)


def lognormal() -> Array:
    """Draw positive values over orders of magnitude, as of raw concentrations."""
    rng = np.random.default_rng(SEED)
    signal = rng.normal(size=(800, 3)) @ rng.normal(size=(3, 12))
    return np.exp(0.7 * signal + 0.4 * rng.normal(size=signal.shape))


def with_constants() -> Array:
    """Draw factors, and columns that are constant or nearly so."""
    rng = np.random.default_rng(SEED)
    signal = rng.normal(size=(600, 3)) @ rng.normal(size=(3, 12)) + 0.5 * rng.normal(size=(600, 12))
    rare = (rng.random((600, 3)) < 0.01).astype(float)
    return np.column_stack([signal, np.full((600, 2), 7.0), rare])


def answers() -> Array:
    """Draw answers from 1 to 5 that depend on two factors."""
    rng = np.random.default_rng(SEED)
    signal = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 20)) + rng.normal(size=(500, 20))
    return np.clip(np.round(3 + signal), 1, 5)


def noise() -> Array:
    """Draw independent normal entries."""
    return np.random.default_rng(SEED).normal(size=(1000, 20))


TABLES = {
    "iris": of_scikit_learn("iris"),
    "wine": of_scikit_learn("wine"),
    "diabetes": of_scikit_learn("diabetes"),
    "breast cancer": of_scikit_learn("breast_cancer"),
    "drawn like the California houses": Task(like_houses),
    "from the model, few features a row": from_the_model(1000, 30, 10),
    "from the model, a third of them": from_the_model(2000, 40, 15, share=0.33),
    "from the model, few rows": from_the_model(60, 20, 4),
    "normal factors": normal_factors(1000, 25, 6),
    "normal factors, 20 rows": normal_factors(20, 15, 2),
    "normal factors, 40 rows": normal_factors(40, 15, 2),
    "normal factors, 60 rows": normal_factors(60, 15, 2),
    "normal factors, 100 x 80": normal_factors(100, 80, 5),
    "five kinds": kinds(1500, 5),
    "three kinds, 60 rows": kinds(60, 3),
    "heavy tails": Task(heavy_tails),
    "over orders of magnitude": Task(lognormal),
    "constant and rare columns": Task(with_constants),
    "answers from 1 to 5": Task(answers),
    "noise": Task(noise),
}
"""Name -> the table."""
