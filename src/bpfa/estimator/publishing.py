"""From the outcome of a run to the attributes of a fitted estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa._support.checks import Array
from bpfa.fitting.run import Outcome
from bpfa.inference.factor_analysis import sample_size
from bpfa.inference.sampler import ChainPosterior
from bpfa.prediction.predictions import feature_means, feature_usage, features_in_use
from bpfa.selection.preferences import PREFERENCES

__all__ = ["fitted_attributes", "publish"]


def fitted_attributes(outcome: Outcome) -> dict[str, Any]:
    """Return the fitted attributes of an estimator, with components in order and signed.

    Components in use come first, and among them those that explain most variance of the standardised columns.
    The largest loading of every component is positive.
    """
    posterior, scale = outcome.posterior, outcome.scale
    usage = _usage(outcome)
    _, noise_std = scale.corrected(scale.mean, posterior.noise_std * scale.unit)
    in_use = features_in_use(posterior, _rows_learned_from(outcome))
    means = feature_means(posterior)
    standardised = means * scale.noise_ratio
    # The weights of all features have the same variance, which therefore cancels.
    order = np.lexsort((-usage * (standardised**2).sum(axis=1), ~in_use))
    largest = np.abs(standardised).argmax(axis=1)[:, None]
    signs = np.where(np.take_along_axis(standardised, largest, axis=1)[:, 0] < 0, -1.0, 1.0)[order]
    optional: dict[str, Any] = (
        {} if outcome.column_names is None else {"feature_names_in_": outcome.column_names}
    )
    if outcome.loading_probabilities is not None:
        optional["loading_probabilities_"] = outcome.loading_probabilities[order]
    if outcome.batches is not None:
        optional["batch_effects_"] = outcome.batches
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
        "components_": means[order] * signs[:, None] * scale.unit,
        "noise_std_": noise_std,
        "n_components_used_": int(in_use.sum()),
        "_component_order": order,
        "_component_signs": signs,
    }


def _usage(outcome: Outcome) -> Array:
    """Return the share of the rows of the data that use each feature."""
    usage = feature_usage(outcome.posterior)
    if isinstance(outcome.posterior, ChainPosterior):
        return usage
    # The prior of a fit that is to be read counts further rows, which use no feature.
    further = PREFERENCES[outcome.settings.prefer].rows_without_features
    return np.minimum(usage * (1 + further), 1.0) if further else usage


def _rows_learned_from(outcome: Outcome) -> float | None:
    """Return how many rows the features were in effect learned from; None for all of them.

    A step of size rho takes the share rho from its batch and keeps the rest. Once rho hardly changes, the
    sums of (2 - rho) / rho batches are averaged in effect. Features that start as components contain the
    noise of the sample of rows that these were found in.
    """
    settings = outcome.settings
    if settings.algorithm == "gibbs" or outcome.n_steps < 1:
        return None
    rho = settings.schedule(outcome.n_steps)
    return min(settings.batch_size * (2 - rho) / rho, sample_size(outcome.posterior.n_columns))


def publish(estimator: Any, outcome: Outcome) -> None:
    """Set all fitted attributes of an estimator at once, replacing those of an earlier fit."""
    attributes = fitted_attributes(outcome)
    for name in ("feature_names_in_", "loading_probabilities_", "batch_effects_"):
        if hasattr(estimator, name):
            delattr(estimator, name)
    # Needed by `save` and by later calls of `partial_fit`.
    estimator._outcome = outcome
    for name, value in attributes.items():
        setattr(estimator, name, value)
