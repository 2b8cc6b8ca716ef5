"""The report of a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa.estimator.components import variance_shares
from bpfa.estimator.diagnostics import column_labels
from bpfa.report.page import render, settings_of, traces
from bpfa.report.table import hole_section, noise_section, prediction_section

__all__ = ["model_report"]

# The most columns shown for a component, and the most components shown on a page.
TOP_COLUMNS, MOST_COMPONENTS = 8, 200


def model_report(model: Any, X: Any = None, *, title: str, truth: Any = None, batch: Any = None) -> str:
    """Return a page that shows what a model has learned and, given data, how well it predicts them.

    Parameters
    ----------
    model : BPFA
        Fitted.
    X : array-like, frame, AnnData, or Rows, optional
        Data with the columns of the fit, for example that of the fit itself. The page then shows how much
        variance the model explains, how often its intervals are right, and where entries are missing.
    title : str
    truth : array-like, frame, AnnData, or Rows, optional
        The same data with some of the entries that `X` lacks; the model is then judged by these entries.
    batch : sequence, or str, optional
        The batch of every row of `X`, as in `BPFA.fit`.

    Returns
    -------
    str
        The page, in HTML. It needs no other file and no network.

    See Also
    --------
    bpfa.report.image_report : A page about a restored picture.
    bpfa.plots.plot_components : The features.

    Examples
    --------
    >>> from bpfa import BPFA, draw_data
    >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
    >>> model = BPFA(n_components=4, max_steps=50, random_state=0).fit(X)
    >>> model_report(model, X, title="Cells").startswith("<!doctype html>")
    True
    """
    from sklearn.base import clone

    columns = [str(name) for name in column_labels(model)]
    predictions = None if X is None else prediction_section(model, X, truth, batch)
    return render(
        kind="model",
        title=title,
        facts={
            "Rows": f"{model.n_rows_seen_:,}",
            "Columns": f"{model.n_features_in_:,}",
            "Features in use": f"{model.n_components_used_} of {len(model.components_)}",
            **_features_of_a_row(model),
            "Noise": f"{model.history_['noise_std'][-1]:.3g} of a column's standard deviation",
            **({} if predictions is None else predictions.facts),
            "Training": f"{model.n_steps_:,} steps, {model.history_['seconds'][-1]:.1f} s",
        },
        comparison=None,
        uncertainty=None,
        noise=noise_section(model, columns),
        predictions=predictions,
        holes=None if X is None else hole_section(model, X, columns),
        stages=None,
        coverage=None,
        atoms=None,
        components=_components(model, columns),
        n_unused=len(model.components_) - model.n_components_used_,
        traces=traces(model.history_, "in standard deviations of a column"),
        settings=settings_of(model),
        command=f"model = bpfa.{clone(model).set_params(verbose=0)!r}.fit(X)",
    )


def _features_of_a_row(model: Any) -> dict[str, str]:
    """Return how many features a row uses on average, if rows are the side that uses a few of them."""
    if model.settings_.sparse == "columns":
        return {}
    return {"Features of a row": f"{model.component_probabilities_[: model.n_components_used_].sum():.1f}"}


def _components(model: Any, columns: list[str]) -> list[dict[str, Any]]:
    """Return the features in use, each with its largest entries, in standard deviations of a column."""
    weights, energies = model.components_ / model.scale_, variance_shares(model)
    names = model.get_feature_names_out()
    shown = []
    for index in range(min(model.n_components_used_, MOST_COMPONENTS)):
        top = np.argsort(-np.abs(weights[index]), kind="stable")[:TOP_COLUMNS]
        largest = float(np.abs(weights[index]).max()) or 1.0
        shown.append(
            {
                "index": index,
                "name": str(names[index]),
                "use": float(model.component_probabilities_[index]),
                "energy": float(energies[index]),
                "bars": [
                    {"name": columns[i], "value": weights[index, i], "share": weights[index, i] / largest}
                    for i in top
                ],
            }
        )
    return shown
