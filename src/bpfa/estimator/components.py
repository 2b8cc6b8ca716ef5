"""The components of a fitted model: how much each is used, what it explains, and which could be left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_integer, check_number
from bpfa.data import sequential
from bpfa.estimator.frames import column_labels, component_labels, frame, ratio, rows_per_block
from bpfa.estimator.transform import TransformMixin

__all__ = ["merge_report", "summary", "top_columns", "variance_shares"]

# How many columns stand for a component in a summary.
N_LARGEST = 3


def summary(model: TransformMixin, X: Any, batch: Any = None) -> Any:
    """Return the frame of `BPFA.component_summary`."""
    phi = model.components_ / model.scale_
    columns = {
        "usage": model.component_probabilities_,
        "in_use": np.arange(len(phi)) < model.n_components_used_,
        "size": np.linalg.norm(phi, axis=1),
        "variance_share": variance_shares(model),
        "largest_columns": _largest_columns(phi, column_labels(model)),
    }
    if X is not None:
        columns["variance_explained"] = _explained_by_each(model, X, batch)
    return frame(columns, index=component_labels(model), index_name="component")


def variance_shares(model: TransformMixin) -> Array:
    """Return the share of each component in the variance that all of them explain, of standardised columns.

    The weights of all components have the same variance, which therefore cancels.
    """
    variances: Array = model.component_probabilities_ * ((model.components_ / model.scale_) ** 2).sum(axis=1)
    return variances / (variances.sum() or 1.0)


def _largest_columns(phi: Array, names: NDArray[Any]) -> list[str]:
    """Return the columns with the largest loadings of each component, marked by a minus if negative.

    Examples
    --------
    >>> _largest_columns(np.array([[0.1, -1.0, 2.0, 0.3]]), np.array(["CD3", "CD4", "CD8", "CD19"]))
    ['CD8, -CD4, CD19']
    """
    largest = np.argsort(-np.abs(phi), axis=1, kind="stable")[:, :N_LARGEST]
    return [
        ", ".join(f"{'-' if row[d] < 0 else ''}{names[d]}" for d in columns)
        for row, columns in zip(phi, largest, strict=True)
    ]


def _explained_by_each(model: TransformMixin, X: Any, labels: Any) -> Array:
    """Return by how much the squared error grows without each component, as a share of all squares."""
    phi, total = model.components_ / model.scale_, 0.0
    growth = np.zeros(len(phi))
    for batch in sequential(model._standardised(X, batch=labels), block_rows=rows_per_block(model)):
        x = model._row_weights(batch)
        values = batch.values * model.noise_ratio_
        residual = np.where(batch.observed, values - x @ phi, 0.0)
        # (r + x_k phi_k)^2 - r^2, summed over the observed entries
        growth += (2 * x * (residual @ phi.T) + x**2 * (batch.observed @ (phi**2).T)).sum(axis=0)
        total += float((values**2).sum())
    return ratio(growth, np.asarray(total))


def top_columns(model: TransformMixin, n: int) -> Any:
    """Return the frame of `BPFA.top_columns`."""
    n = min(check_integer("n", n, low=1), len(model.scale_))
    standardised = model.components_ / model.scale_
    top = np.argsort(-np.abs(standardised), axis=1, kind="stable")[:, :n]
    return frame(
        {
            "component": np.repeat(component_labels(model), n),
            "rank": np.tile(np.arange(1, n + 1), len(top)),
            "column": column_labels(model)[top].ravel(),
            "loading": np.take_along_axis(model.components_, top, axis=1).ravel(),
            "standardised_loading": np.take_along_axis(standardised, top, axis=1).ravel(),
        }
    )


def merge_report(model: TransformMixin, similarity: float) -> Any:
    """Return the frame of `BPFA.merge_report`."""
    similarity = check_number("similarity", similarity, low=0.0, high=1.0)
    # Components are sorted so that those in use are the first n_components_used_.
    n_used, n_components = model.n_components_used_, len(model.components_)
    cosines = _cosines(model.components_[:n_used] / model.scale_)
    first, second = np.nonzero(np.abs(cosines) > similarity)
    order = np.argsort(-np.abs(cosines[first, second]), kind="stable")
    first, second = first[order], second[order]
    unused = np.arange(n_used, n_components)
    names, usage = component_labels(model), model.component_probabilities_
    undefined = np.full(len(unused), np.nan)
    return frame(
        {
            "component": np.append(names[first], names[unused]),
            "other": np.append(names[second], np.full(len(unused), None)),
            "usage": np.append(usage[first], usage[unused]),
            "other_usage": np.append(usage[second], undefined),
            "cosine": np.append(cosines[first, second], undefined),
            "advice": np.repeat(["merge", "prune"], [len(first), len(unused)]),
        }
    )


def _cosines(components: Array) -> Array:
    """Return the cosine of the angle between every two components, j < k, and 0 elsewhere.

    Examples
    --------
    >>> _cosines(np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 0.0]]))
    array([[ 0., -1.,  0.],
           [ 0.,  0.,  0.],
           [ 0.,  0.,  0.]])
    """
    norms = np.linalg.norm(components, axis=1, keepdims=True)
    directions = components / np.where(norms > 0, norms, 1.0)
    return np.triu(directions @ directions.T, k=1)
