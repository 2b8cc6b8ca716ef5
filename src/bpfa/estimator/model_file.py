"""A fitted BPFA as arrays and a document, and back."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.data import Scale
from bpfa.estimator.storage import pack_posterior, read_model, unpack_posterior
from bpfa.fitting.history import History
from bpfa.fitting.run import Settings
from bpfa.model.priors import Priors

__all__ = ["load_into", "pack_model"]

# What the arrays of the parts are called in a file.
POSTERIOR, LAST, HISTORY = "posterior.", "last.", "history."


def pack_model(model: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the document of a fitted model."""
    posterior_arrays, posterior = pack_posterior(model.posterior_)
    arrays = {POSTERIOR + name: array for name, array in posterior_arrays.items()}
    last = None
    if model._last is not None:
        last_arrays, last = pack_posterior(model._last)
        arrays |= {LAST + name: array for name, array in last_arrays.items()}
    arrays |= {HISTORY + name: array for name, array in model.history_.items()}
    arrays |= {"mean": model.mean_, "scale": model.scale_, "noise_ratio": model.noise_ratio_}
    names = getattr(model, "feature_names_in_", None)
    return arrays, {
        "parameters": _plain(model.get_params(deep=False)),
        "settings": model.settings_.document(),
        "posterior": posterior,
        "best_step": model.best_step_,
        "last": last,
        "n_steps": model.n_steps_,
        "n_rows_seen": model.n_rows_seen_,
        "stopped_by": model.stopped_by_,
        "columns": None if names is None else [str(name) for name in names],
    }


def load_into(model: Any, path: str | os.PathLike[str]) -> None:
    """Give a model of default parameters the parameters and the state of a file."""
    arrays, document = read_model(path)
    try:
        parameters = dict(document["parameters"])
        if parameters["priors"] is not None:
            parameters["priors"] = Priors(**parameters["priors"])
        model.set_params(**parameters)
        posterior = unpack_posterior(_part(arrays, POSTERIOR), document["posterior"])
        last = None
        if document["last"] is not None:
            last = unpack_posterior(_part(arrays, LAST), document["last"])
        scale = Scale(arrays["mean"], arrays["scale"], arrays["noise_ratio"])
        model.n_features_in_ = len(scale.mean)
        if document["columns"] is not None:
            model.feature_names_in_ = np.array(document["columns"], dtype=object)
        settings = Settings.from_document(document["settings"])
        history = History(_part(arrays, HISTORY))
        model._keep(
            settings,
            posterior,
            document["n_steps"],
            history,
            document["stopped_by"],
            scale,
            document["n_rows_seen"],
            best_step=document["best_step"],
            last=last,
        )
    except Exception as error:
        # Whole and of our making, but of something else: what is missing may show in many ways.
        raise ValueError(f"{path}: not a usable model ({type(error).__name__}: {error})") from error


def _part(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters as JSON can say them; a RandomState has done its work and is left out."""
    plain = {
        name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()
    }
    if plain["priors"] is not None:
        plain["priors"] = asdict(plain["priors"])
    if not isinstance(plain["random_state"], int):
        plain["random_state"] = None
    return plain
