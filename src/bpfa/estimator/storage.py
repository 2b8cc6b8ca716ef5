"""Model files: arrays and a JSON document in a safetensors file, which is checked when it is read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from bpfa._support.files import whole_file
from bpfa.inference.sampler import ChainPosterior
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.local import LocalState
from bpfa.model.posterior import GlobalPosterior, Posterior
from bpfa.model.priors import Priors
from bpfa.model.view import GlobalView

__all__ = ["SCHEMA", "pack_posterior", "read_model", "unpack_posterior", "write_model"]

SCHEMA = 3
"""Version of the layout of model files. Files with a later version cannot be read."""

Arrays = dict[str, NDArray[Any]]


def write_model(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], document: Any) -> None:
    """Write arrays and a JSON document to one file.

    The file is written under a temporary name in the same folder, and renamed once it is complete and on the
    disk. Whatever goes wrong, a file at `path` is complete, whether it is the old or the new one.

    Parameters
    ----------
    path : path-like
    arrays : mapping of str to array
        Arrays of float64, float32, int64 or bool.
    document : dict
        Anything that JSON can express.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(Path(folder, "a.bpfa"), {"x": np.ones(2)}, {"note": "two ones"})
    ...     read_model(Path(folder, "a.bpfa"))
    ({'x': array([1., 1.])}, {'note': 'two ones'})
    """
    path = Path(path)
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(document, allow_nan=False)
    metadata = {"bpfa": text, "schema": str(SCHEMA), "digest": _digest(plain, text)}
    with whole_file(path) as temporary:
        try:
            save_file(plain, temporary, metadata=metadata)
        except SafetensorError as error:
            raise OSError(f"{path}: not written, and what was there is untouched: {error}") from None


def read_model(path: str | os.PathLike[str]) -> tuple[Arrays, Any]:
    """Return the arrays and the document of a file. Nothing in the file is ever executed.

    Raises
    ------
    FileNotFoundError
    ValueError
        If the file was not written by bpfa, is damaged, or was written by a later version.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a model saved by bpfa")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except Exception as error:
        # A file of another kind can make the library fail in many different ways.
        raise ValueError(f"{path}: not a model saved by bpfa, or cut short ({error})") from None
    if "bpfa" not in metadata:
        raise ValueError(f"{path}: a safetensors file, but not a model saved by bpfa")
    schema, text = metadata.get("schema", ""), metadata["bpfa"]
    if not schema.isdecimal() or int(schema) > SCHEMA:
        raise ValueError(
            f"{path}: schema {schema!r}, from a later bpfa; this one reads up to {SCHEMA}: "
            "pip install --upgrade bpfa"
        )
    if metadata.get("digest") != _digest(arrays, text):
        raise ValueError(f"{path}: damaged: its contents do not match their digest")
    return arrays, upgraded(json.loads(text), int(schema))


def upgraded(document: Any, schema: int) -> Any:
    """Return the document of a model file of an earlier schema in the form of the current schema.

    Schema 2 renamed the parameters `hide` and `weights` to `dropout` and `weight_precision`. Schema 3 added
    the sketch of the entries that a model has seen, and the setting `diagnostic`; files without them are read
    as they are, and it stays unknown which entries such a model has seen.

    Examples
    --------
    >>> upgraded({"parameters": {"hide": 0.1, "weights": "all"}}, schema=1)
    {'parameters': {'dropout': 0.1, 'weight_precision': 'all'}}
    """
    if schema > 1:
        return document
    names = {"hide": "dropout", "weights": "weight_precision"}

    def renamed(part: Any) -> Any:
        if isinstance(part, dict):
            return {names.get(name, name): renamed(value) for name, value in part.items()}
        return part

    return renamed(document)


def pack_posterior(posterior: Posterior) -> tuple[Arrays, dict[str, Any]]:
    """Return a posterior as arrays and a document, from which `unpack_posterior` restores it exactly."""
    if isinstance(posterior, ChainPosterior):
        views = posterior.views
        stacked = {name: np.stack([getattr(view, name) for view in views]) for name in GlobalView._fields}
        return stacked | {"z": posterior.state.z.astype(bool), "w": posterior.state.w}, {"kind": "chain"}
    assert isinstance(posterior, GlobalPosterior)
    features = posterior.features
    arrays = {name: getattr(features, name) for name in features.__dataclass_fields__}
    arrays |= {name: np.asarray(getattr(posterior, name)) for name in "abcdef"}
    return arrays, {
        "kind": "joint" if isinstance(features, JointFeatures) else "factorised",
        "priors": asdict(posterior.priors),
        "n_rows": posterior.n_rows,
        "weight_precision": posterior.weight_precision,
    }


def unpack_posterior(arrays: Mapping[str, NDArray[Any]], document: Any) -> Posterior:
    """Return the posterior that `pack_posterior` turned into arrays and a document."""
    kind = document["kind"]
    if kind == "chain":
        stacked = [arrays[name] for name in GlobalView._fields]
        views = tuple(
            GlobalView(phi, v, logit, float(g_o), float(g_w)).checked()
            for phi, v, logit, g_o, g_w in zip(*stacked, strict=True)
        )
        return ChainPosterior(views, LocalState(arrays["z"].astype(np.float64), arrays["w"]))
    form: Any = {"joint": JointFeatures, "factorised": FactorisedFeatures}[kind]
    return GlobalPosterior(
        priors=Priors(**document["priors"]),
        n_rows=document["n_rows"],
        a=arrays["a"],
        b=arrays["b"],
        **{name: float(arrays[name]) for name in "cdef"},
        features=form(**{name: arrays[name] for name in form.__dataclass_fields__}),
        weight_precision=document["weight_precision"],
    )


def _digest(arrays: Mapping[str, NDArray[Any]], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.name} {array.shape}".encode())
        digest.update(array.data if array.ndim else array.tobytes())
    return digest.hexdigest()
