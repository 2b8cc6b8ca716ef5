"""Going on with a fit that was saved, after checking that it is the same fit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from bpfa.data import Scale, StandardisedRows
from bpfa.fitting.checkpoint import Checkpoint
from bpfa.fitting.history import History
from bpfa.fitting.run import Best, Settings

__all__ = ["file_to_resume", "state_of"]


def file_to_resume(
    resume: bool | str | os.PathLike[str], checkpoint: Checkpoint | None
) -> str | os.PathLike[str] | None:
    """Return the file that a fit is to go on from, if any; True stands for the checkpoint, if it is there."""
    if resume is True:
        if checkpoint is None:
            raise ValueError("resume=True: no checkpoint to resume from; expected checkpoint=path")
        return checkpoint.path if Path(checkpoint.path).exists() else None
    return None if isinstance(resume, bool) else resume


def state_of(
    saved: Any,
    path: str | os.PathLike[str],
    settings: Settings,
    standardised: StandardisedRows,
    *,
    any_seed: bool,
) -> dict[str, Any]:
    """Return where a saved model stood, refusing one that was fitted otherwise or to other data.

    Parameters
    ----------
    saved : BPFA
    path : path-like
        Where it was saved.
    settings : Settings
        Of the fit that is to go on.
    standardised : StandardisedRows
        The data of that fit.
    any_seed : bool
        Whether the fit takes over the seed of the saved one.
    """
    theirs, ours = saved.settings_.document(), settings.document()
    if any_seed:
        ours["key"] = theirs["key"]
    for name in ours:
        if ours[name] != theirs[name]:
            raise ValueError(
                f"resume: {path} was fitted with {name}={theirs[name]!r}, not {ours[name]!r}; "
                "expected the same parameters"
            )
    same_mean = np.array_equal(saved.mean_, standardised.mean)
    same_scale = np.array_equal(saved.scale_, standardised.scale)
    if saved.n_rows_seen_ != standardised.n_rows or not (same_mean and same_scale):
        raise ValueError(f"resume: {path} was fitted to other data; expected the same rows and columns")
    return {
        "settings": saved.settings_,
        "scale": Scale(saved.mean_, saved.scale_, saved.noise_ratio_),
        "step": saved.n_steps_,
        "posterior": saved.posterior_ if saved._last is None else saved._last,
        "history": History(saved.history_),
        "best": _best(saved),
    }


def _best(saved: Any) -> Best | None:
    """Return the model that a fit kept for its held-out score, if it has one."""
    scores = saved.history_["held_out_log_likelihood"][saved.history_["step"] == saved.best_step_]
    if not np.isfinite(scores).any():
        return None
    return Best(saved.best_step_, float(scores[0]), saved.posterior_)
