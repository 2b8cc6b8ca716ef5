"""Continuing a saved fit, after checking that its data and parameters are the same."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bpfa.data.scaling import Scale
from bpfa.estimator.model_file import read_outcome
from bpfa.estimator.parameters import Parameters, check_parameters
from bpfa.fitting.checkpoint import Checkpoint
from bpfa.fitting.plan import Best, Standing
from bpfa.fitting.run import Outcome
from bpfa.inference.settings import Settings
from bpfa.selection.start_choice import Start

__all__ = ["Resumed", "saved_fit"]


@dataclass(frozen=True)
class Resumed:
    """A saved fit that is to be continued.

    Parameters
    ----------
    path : path-like
        Where it was saved.
    parameters : Parameters
        The parameters that it was given.
    outcome : Outcome
        Its result.
    """

    path: str | os.PathLike[str]
    parameters: Parameters
    outcome: Outcome

    @property
    def scale(self) -> Scale:
        """The units of the saved model."""
        return self.outcome.scale

    def start(self, parameters: Parameters, settings: Settings) -> Start:
        """Return the start of the continued fit: that which the saved fit chose, unless the user sets it."""
        saved = self.outcome.settings
        if parameters.n_components is not None:
            return Start(parameters.n_components, settings.init)
        keeps_saved_start = parameters.open_start and self.parameters.open_start
        return Start(saved.n_features, saved.init if keeps_saved_start else settings.init)

    def checked_settings(self, settings: Settings, scale: Scale, n_rows: int, data_digest: str) -> Settings:
        """Return the saved settings, after checking that the saved fit had the same settings and data.

        Parameters
        ----------
        settings : Settings
            Settings that the new fit would have.
        scale : Scale
            Mean and scale of the columns of its data, without what is held out.
        n_rows : int
            Number of rows of its data.
        data_digest : str
            Digest of its data. A file that was saved without a digest is judged by `scale` and `n_rows`.
        """
        saved, current = self.outcome.settings.document(), settings.document()
        for name in current:
            if current[name] != saved[name]:
                raise ValueError(
                    f"resume: {self.path} was fitted with {name}={saved[name]!r}, not {current[name]!r}; "
                    "expected the same parameters"
                )
        same_mean = np.array_equal(self.scale.mean, scale.mean)
        same_scale = np.array_equal(self.scale.scale, scale.scale)
        same_rows = self.outcome.n_rows_seen == n_rows and self.outcome.data_digest in (None, data_digest)
        if not (same_rows and same_mean and same_scale):
            raise ValueError(
                f"resume: {self.path} was fitted to other data; expected the same rows and columns"
            )
        return self.outcome.settings

    def standing(self) -> Standing:
        """Return the point that the saved fit has reached."""
        outcome = self.outcome
        posterior = outcome.posterior if outcome.last is None else outcome.last
        return Standing(outcome.n_steps, posterior, outcome.history, self._best())

    def _best(self) -> Best | None:
        """Return the model with the best held-out score, if the saved fit kept one."""
        history: Any = self.outcome.history
        scores = history["held_out_log_likelihood"][history["step"] == self.outcome.best_step]
        if not np.isfinite(scores).any():
            return None
        return Best(self.outcome.best_step, float(scores[0]), self.outcome.posterior)


def saved_fit(resume: bool | str | os.PathLike[str], checkpoint: Checkpoint | None) -> Resumed | None:
    """Return the saved fit that is to be continued, if any.

    Parameters
    ----------
    resume : bool or path
        True means the file of the checkpoint, if it exists.
    checkpoint : Checkpoint or None
    """
    path: str | os.PathLike[str] | None = None if isinstance(resume, bool) else resume
    if resume is True:
        if checkpoint is None:
            raise ValueError("resume=True: no checkpoint to resume from; expected checkpoint=path")
        path = checkpoint.path if Path(checkpoint.path).exists() else None
    if path is None:
        return None
    parameters, outcome = read_outcome(path)
    return Resumed(path, check_parameters(parameters), outcome)
