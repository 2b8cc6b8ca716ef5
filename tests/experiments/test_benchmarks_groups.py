"""The benchmarks of groups of like rows count what they say they count."""

from typing import ClassVar

import numpy as np
import pytest

from benchmarks import large_table, with_and_without
from benchmarks.like_rows_methods import iterated
from benchmarks.with_and_without_tables import TABLES


def row(changes):
    """A table whose squared error and log-likelihood change like this under its masks."""
    masks = [
        {
            "without": {"mse": 1.0, "log_likelihood": -1.0, "groups": 0.0},
            "with": {"mse": 1.0 + change, "log_likelihood": -1.0 - change, "groups": float(change != 0)},
        }
        for change in changes
    ]
    return {"table": "t", "shape": [1000, 5], "masks": masks}


def test_harm_beyond_chance_is_counted():
    worse, better, chance, same = row([0.1, 0.12]), row([-0.1, -0.12]), row([0.1, -0.2]), row([0.0, 0.0])
    assert with_and_without.cells(worse)[1:6] == [
        "1,000 x 5",
        "2 of 2",
        "1.0000",
        "1.1100",
        "+11.0 % (± 1.0)",
    ]
    assert with_and_without.cells(same)[2] == "0 of 2"
    text = with_and_without.markdown({"rows": [worse, worse, better, chance, same]})
    assert text.endswith(
        "larger in 2 and smaller in 1 of 5 tables, and the log-likelihood lower in 2 and higher in 1."
    )


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_can_be_fitted(name):
    task = TABLES[name](0)
    assert np.isfinite(task.truth).all()
    observed = task.train[:, ~np.isnan(task.train).all(axis=0)]
    np.testing.assert_allclose(np.nanmean(observed, axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(task.complete()[~task.hidden], task.train[~task.hidden])
    assert not np.array_equal(task.hidden, TABLES[name](1).hidden)


class Regression:
    """A regression that notes how many columns it is given."""

    seen: ClassVar[list[int]] = []

    def fit(self, x, y):
        self.seen.append(x.shape[1])
        return self

    def predict(self, x):
        return np.zeros(len(x))

    def get_params(self, deep=True):
        return {}


@pytest.mark.parametrize(
    ("most", "given", "note"), [(30, 24, "r, 2 rounds"), (10, 20, "r from 20 columns, 2")]
)
def test_trees_are_given_few_columns_of_a_wide_table(most, given, note):
    table = np.random.default_rng(0).normal(size=(50, 25))
    table[::7, 3] = np.nan
    Regression.seen.clear()
    found = iterated(lambda seed: Regression(), "r", most)(table, 0)
    assert set(Regression.seen) == {given}
    assert found.note.startswith(note)


def test_a_fit_that_failed_has_a_note():
    done = {"contestant": "bpfa", "shape": [10, 2], "mse": 0.5, "log_likelihood": -1.0, "coverage": 0.95}
    done |= {
        "fit_seconds": 1.0,
        "impute_seconds": 2.0,
        "megabytes_before": 10.0,
        "megabytes": 2000.0,
        "note": "",
    }
    text = large_table.markdown(
        {"threads": 2, "rows": [done, {"contestant": "x", "note": "not finished in 3 s"}]}
    )
    lines = text.splitlines()
    assert lines[2] == "| bpfa | 0.5000 | -1.0000 | 95.0% | 1.0 | 2.0 | 10 | 2,000 |  |"
    assert lines[3].startswith("| x |")
    assert lines[3].endswith("| not finished in 3 s |")
    assert lines[-1].startswith("10 cells x 2 proteins, 5% of the entries hidden, number of threads: 2")
