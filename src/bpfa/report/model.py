"""The report of a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa.report.page import energy, render, settings_of, traces

__all__ = ["model_report"]

# The most columns shown for a component, and the most components shown on a page.
TOP_COLUMNS, MOST_COMPONENTS = 8, 200


def model_report(model: Any, *, title: str) -> str:
    """Return a page that shows what a model has learned.

    Parameters
    ----------
    model : BPFA
        Fitted.
    title : str
    """
    from sklearn.base import clone

    names = getattr(model, "feature_names_in_", None)
    columns = (
        [str(name) for name in names] if names is not None else [str(i) for i in range(model.n_features_in_)]
    )
    return render(
        kind="model",
        title=title,
        facts={
            "Rows": f"{model.n_rows_seen_:,}",
            "Columns": f"{model.n_features_in_:,}",
            "Features in use": f"{model.n_components_used_} of {len(model.components_)}",
            "Noise": f"{model.history_['noise_std'][-1]:.3g} of a column's standard deviation",
            "Training": f"{model.n_steps_:,} steps, {model.history_['seconds'][-1]:.1f} s",
        },
        comparison=None,
        uncertainty=None,
        stages=None,
        coverage=None,
        atoms=None,
        components=_components(model, columns),
        n_unused=len(model.components_) - model.n_components_used_,
        traces=traces(model.history_, "in standard deviations of a column"),
        settings=settings_of(model),
        command=f"model = bpfa.{clone(model).set_params(verbose=0)!r}.fit(X)",
    )


def _components(model: Any, columns: list[str]) -> list[dict[str, Any]]:
    """Return the features in use, each with its largest entries, in standard deviations of a column."""
    weights, energies = model.components_ / model.scale_, energy(model)
    shown = []
    for index in range(min(model.n_components_used_, MOST_COMPONENTS)):
        top = np.argsort(-np.abs(weights[index]), kind="stable")[:TOP_COLUMNS]
        largest = float(np.abs(weights[index]).max()) or 1.0
        shown.append(
            {
                "index": index,
                "use": float(model.component_probabilities_[index]),
                "energy": float(energies[index]),
                "bars": [
                    {"name": columns[i], "value": weights[index, i], "share": weights[index, i] / largest}
                    for i in top
                ],
            }
        )
    return shown
