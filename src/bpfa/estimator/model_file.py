"""Saving a fitted BPFA to a file, and reading it back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.data.batches import BatchEffects
from bpfa.data.scaling import Scale
from bpfa.data.sketch import EntrySketch
from bpfa.estimator.overwriting import check_replaceable
from bpfa.estimator.storage import pack_posterior, read_model, unpack_posterior, write_model
from bpfa.fitting.history import History
from bpfa.fitting.run import Outcome
from bpfa.inference.settings import Settings
from bpfa.model.priors import Priors
from bpfa.model.row_groups import KeptRows
from bpfa.model.row_kinds import RowKinds
from bpfa.prediction.groups import GroupMixture, LikeRows

__all__ = ["read_outcome", "write_outcome"]

# Prefixes of the names of arrays in a file.
POSTERIOR, LAST, HISTORY, SKETCH = "posterior.", "last.", "history.", "sketch."
BATCHES, KEPT, KINDS, NOTES = "batches.", "kept.", "kinds.", "notes."
# Name of the array of the probabilities that columns use features.
PROBABILITIES = "loading_probabilities"


def write_outcome(
    path: str | os.PathLike[str],
    parameters: Mapping[str, Any],
    outcome: Outcome,
    *,
    with_rows: bool = False,
) -> None:
    """Save a model together with the parameters of its estimator.

    Parameters
    ----------
    path : path-like
        An existing model is replaced once the new one is complete; a file of another kind is refused.
    parameters : mapping
        As `BPFA.get_params` returns them.
    outcome : Outcome
    with_rows : bool
        Whether the rows of the fit that were kept to find like rows among are written as well.
    """
    check_replaceable(path)
    posterior_arrays, posterior = pack_posterior(outcome.posterior)
    arrays = {POSTERIOR + name: array for name, array in posterior_arrays.items()}
    last = None
    if outcome.last is not None:
        last_arrays, last = pack_posterior(outcome.last)
        arrays |= {LAST + name: array for name, array in last_arrays.items()}
    arrays |= {HISTORY + name: array for name, array in outcome.history.items()}
    arrays |= {name: array for name, array in outcome.scale._asdict().items() if array is not None}
    if outcome.sketch is not None:
        # Files have no unsigned integers.
        arrays |= {
            SKETCH + "hashes": outcome.sketch.hashes.view(np.int64),
            SKETCH + "repeated": outcome.sketch.repeated,
        }
    if outcome.spared is not None:
        arrays["spared"] = outcome.spared
    if outcome.loading_probabilities is not None:
        arrays[PROBABILITIES] = outcome.loading_probabilities
    if outcome.batches is not None:
        fields = asdict(outcome.batches)
        arrays |= {BATCHES + name: array for name, array in fields.items() if name != "labels"}
    like_rows = outcome.like_rows
    if with_rows and like_rows is not None and like_rows.kept is not None:
        arrays |= {KEPT + "values": like_rows.kept.values, KEPT + "variance": like_rows.kept.variance}
    if like_rows is not None:
        arrays |= {
            f"{KINDS}{i}.{name}": array
            for i, kinds in enumerate(like_rows.kinds)
            for name, array in asdict(kinds).items()
        }
    notes = outcome.notes
    if notes is not None:
        arrays |= {NOTES + name: note for name, note in notes.items() if isinstance(note, np.ndarray)}
        notes = {name: note for name, note in notes.items() if not isinstance(note, np.ndarray)}
    names = outcome.column_names
    document = {
        "parameters": _plain(parameters),
        "settings": outcome.settings.document(),
        "posterior": posterior,
        "best_step": outcome.best_step,
        "last": last,
        "n_steps": outcome.n_steps,
        "n_rows_seen": outcome.n_rows_seen,
        "stopped_by": outcome.stopped_by,
        "columns": None if names is None else [str(name) for name in names],
        "data_digest": outcome.data_digest,
        "notes": notes,
        "batches": None if outcome.batches is None else list(outcome.batches.labels),
        "groups": None if like_rows is None else asdict(like_rows.mixture),
    }
    write_model(path, arrays, document)


def read_outcome(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Outcome]:
    """Return the parameters of the estimator and the model that a file contains."""
    arrays, document = read_model(path)
    try:
        parameters = dict(document["parameters"])
        if parameters["priors"] is not None:
            parameters["priors"] = Priors(**parameters["priors"])
        return parameters, _outcome(arrays, document)
    except Exception as error:
        # The file is complete and was written by bpfa, but it does not contain a model. This can show itself
        # as many different exceptions.
        raise ValueError(f"{path}: not a usable model ({type(error).__name__}: {error})") from error


def _outcome(arrays: dict[str, NDArray[Any]], document: dict[str, Any]) -> Outcome:
    last, names, sketch = document["last"], document["columns"], _part(arrays, SKETCH)
    labels, notes = document.get("batches"), document.get("notes")
    return Outcome(
        settings=Settings.from_document(document["settings"]),
        scale=Scale(
            arrays["mean"],
            arrays["scale"],
            arrays["noise_ratio"],
            constant=arrays.get("constant"),
            empty=arrays.get("empty"),
        ),
        posterior=unpack_posterior(_part(arrays, POSTERIOR), document["posterior"]),
        last=None if last is None else unpack_posterior(_part(arrays, LAST), last),
        n_steps=document["n_steps"],
        best_step=document["best_step"],
        history=History(_part(arrays, HISTORY)).arrays(),
        stopped_by=document["stopped_by"],
        n_rows_seen=document["n_rows_seen"],
        column_names=None if names is None else np.array(names, dtype=object),
        data_digest=document.get("data_digest"),
        sketch=EntrySketch(sketch["hashes"].view(np.uint64), sketch["repeated"]) if sketch else None,
        spared=arrays.get("spared"),
        loading_probabilities=arrays.get(PROBABILITIES),
        notes=None if notes is None else notes | _part(arrays, NOTES),
        batches=None if labels is None else BatchEffects(labels=tuple(labels), **_part(arrays, BATCHES)),
        like_rows=_like_rows(arrays, document.get("groups")),
    )


def _like_rows(arrays: dict[str, NDArray[Any]], document: dict[str, Any] | None) -> LikeRows | None:
    if document is None:
        return None
    mixture = GroupMixture(**{name: tuple(values) for name, values in document.items()})
    rows = _part(arrays, KEPT)
    kinds = tuple(RowKinds(**_part(arrays, f"{KINDS}{i}.")) for i in range(len(mixture.kinds)))
    return LikeRows(mixture, KeptRows(rows["values"], rows["variance"]) if rows else None, kinds)


def _part(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters in a form that JSON can express.

    A RandomState is left out: the settings contain the key that was drawn from it.
    """
    plain = {
        name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()
    }
    if plain["priors"] is not None:
        plain["priors"] = asdict(plain["priors"])
    if not isinstance(plain["random_state"], int):
        plain["random_state"] = None
    return plain
