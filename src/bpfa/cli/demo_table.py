"""bpfa demo --table: fills in a real table with many holes, and compares with other methods."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from bpfa.cli.messages import Messenger
from bpfa.cli.outputs import Outputs
from bpfa.cli.textfiles import Style, write_text
from bpfa.data import ArrayRows, RowNames

__all__ = ["TABLE_FILES", "table_demo"]

MISSING = 0.4
# Of the entries that are left, by which the report judges the model.
HELD_OUT = 0.05
TABLE_FILES = ("holes.csv", "filled.csv", "std.csv", "model.bpfa", "report.html")
"""What the demo writes."""


def table_demo(
    context: typer.Context, outputs: Outputs, paths: list[Path], *, seed: int, jobs: int | None
) -> None:
    """Write the files of the demo, and print how far off the filled entries are."""
    from bpfa import BPFA
    from bpfa.report import model_report

    messenger = Messenger.of(context)
    truth, names, labels = tumours()
    missing = np.random.default_rng(seed).random(truth.shape) < MISSING
    holes = np.where(missing, np.nan, truth)
    size = f"{truth.shape[0]} x {truth.shape[1]}"
    messenger.note(f"{MISSING:.0%} of {size} entries are removed, and filled in by:")
    rows = ArrayRows(holes, column_names=names)
    model = BPFA(held_out=HELD_OUT, random_state=seed, n_jobs=jobs, verbose=messenger.verbose).fit(rows)
    mean, std = model.impute(rows, return_std=True)
    filled, std = np.asarray(mean), np.asarray(std)
    scores = {"bpfa": error(truth, filled, missing)}
    for name, imputer in others(seed).items():
        with messenger.bar(name, None), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores[name] = error(truth, imputer.fit_transform(holes), missing)
    covered = float(np.mean(np.abs(filled - truth)[missing] <= 1.96 * std[missing]))

    page = model_report(model, rows, title="model.bpfa")
    written = dict(zip(TABLE_FILES, paths, strict=True))
    for name, values in (("holes.csv", holes), ("filled.csv", filled), ("std.csv", std)):
        outputs.add("FOLDER", written[name], _writer(values, names, labels))
    outputs.add("FOLDER", written["model.bpfa"], partial(model.save, with_rows=True))
    outputs.add("FOLDER", written["report.html"], lambda path: path.write_text(page, encoding="utf-8"))
    outputs.write()
    document = {
        "written": {path.stem: path for path in paths},
        "error": scores,
        "coverage": covered,
        "missing_share": float(missing.mean()),
        "active_features": model.n_components_used_,
        "features": len(model.components_),
        "steps": model.n_steps_,
    }
    line = f"{covered:.1%} of the removed entries lie inside their 95 % intervals"
    messenger.result("demo", document, comparison(scores), line, *(str(path) for path in paths))


def tumours() -> tuple[NDArray[np.float64], list[str], RowNames]:
    """Return a table of scikit-learn: 30 measurements of 569 tumours, as logarithms, with names.

    Examples
    --------
    >>> values, names, labels = tumours()
    >>> values.shape, names[0], labels.values[0][:2].tolist()
    ((569, 30), 'mean radius', ['tumour 1', 'tumour 2'])
    """
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    labels = np.array([f"tumour {n}" for n in range(1, len(bunch.data) + 1)], dtype=object)
    # Measurements are positive and skewed; some are exactly zero. As many digits are used as are written.
    return (
        np.log(bunch.data + 0.01).round(6),
        [str(name) for name in bunch.feature_names],
        RowNames(("tumour",), (labels,)),
    )


def others(seed: int) -> dict[str, Any]:
    """Return the methods of scikit-learn to compare with, by name."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    return {
        "regressions (IterativeImputer)": IterativeImputer(random_state=seed),
        "5 like rows (KNNImputer)": KNNImputer(n_neighbors=5),
        "column means": SimpleImputer(),
    }


def error(truth: NDArray[Any], filled: NDArray[Any], missing: NDArray[np.bool_]) -> float:
    """Return the root mean square error of the removed entries, in standard deviations of their columns.

    Examples
    --------
    >>> error(np.array([[0.0], [2.0]]), np.array([[1.0], [2.0]]), np.array([[True], [False]]))
    1.0
    """
    return float(np.sqrt(np.mean((((filled - truth) / truth.std(axis=0))[missing]) ** 2)))


def _writer(values: NDArray[Any], names: list[str], labels: RowNames) -> Any:
    """Return a function that writes a matrix as a text file."""
    return lambda path: write_text(path, values.round(6), names, labels, Style(","))


def comparison(scores: dict[str, float]) -> Table:
    """Return a table of the errors for people to read, the smallest first."""
    table = Table("", "error of the removed entries, in standard deviations")
    for name, score in sorted(scores.items(), key=lambda item: item[1]):
        table.add_row(name, f"{score:.3f}")
    return table
