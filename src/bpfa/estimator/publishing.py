"""From the outcome of a run to the attributes of a fitted estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa.fitting.run import Outcome
from bpfa.prediction.predictions import feature_means, feature_usage, features_in_use

__all__ = ["fitted_attributes", "publish"]


def fitted_attributes(outcome: Outcome) -> dict[str, Any]:
    """Return the fitted attributes of an estimator, with components sorted: those in use first."""
    posterior, scale = outcome.posterior, outcome.scale
    usage = feature_usage(posterior)
    _, noise_std = scale.corrected(scale.mean, posterior.noise_std * scale.unit)
    in_use = features_in_use(posterior)
    order = np.lexsort((-usage, ~in_use))
    optional = {} if outcome.column_names is None else {"feature_names_in_": outcome.column_names}
    if outcome.loading_probabilities is not None:
        optional["loading_probabilities_"] = outcome.loading_probabilities[order]
    return optional | {
        "n_features_in_": len(scale.mean),
        "settings_": outcome.settings,
        "posterior_": posterior,
        "n_steps_": outcome.n_steps,
        "best_step_": outcome.best_step,
        "history_": outcome.history,
        "stopped_by_": outcome.stopped_by,
        "mean_": scale.mean,
        "scale_": scale.scale,
        "noise_ratio_": scale.noise_ratio,
        "n_rows_seen_": outcome.n_rows_seen,
        "groups_": None if outcome.like_rows is None else outcome.like_rows.mixture,
        "component_probabilities_": usage[order],
        "components_": feature_means(posterior)[order] * scale.unit,
        "noise_std_": noise_std,
        "n_components_used_": int(in_use.sum()),
        "_component_order": order,
    }


def publish(estimator: Any, outcome: Outcome) -> None:
    """Set all fitted attributes of an estimator at once, replacing those of an earlier fit."""
    attributes = fitted_attributes(outcome)
    for name in ("feature_names_in_", "loading_probabilities_"):
        if hasattr(estimator, name):
            delattr(estimator, name)
    # Needed by `save` and by later calls of `partial_fit`.
    estimator._outcome = outcome
    for name, value in attributes.items():
        setattr(estimator, name, value)
