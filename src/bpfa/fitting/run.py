"""A fit from its start, or from a checkpoint, to its end: training, held-out scores, limits and callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.backends.cuda.posterior import on_host
from bpfa.data import Batch, HeldOutRows, Rows, sample_ids
from bpfa.fitting.history import History
from bpfa.fitting.limits import Limits
from bpfa.fitting.revision import revise
from bpfa.inference.algorithms import Algorithm, algorithm
from bpfa.inference.progress import Posterior, Progress
from bpfa.inference.schedule import Schedule
from bpfa.inference.training import train
from bpfa.model.priors import Priors
from bpfa.prediction.scores import HeldOutScore, score_rows

__all__ = ["Best", "Callback", "Fit", "Settings"]

Callback = Callable[[Progress, History], Any]
"""Called after every step; a true answer ends the fit."""

# Held-out entries are scored in so many rows, with so many draws, after every so many steps (or sweeps).
SCORED_ROWS, SCORED_DRAWS = 1000, 10
STEPS_BETWEEN_SCORES, SWEEPS_BETWEEN_SCORES = 50, 5
# Rows among which badly explained ones are sought.
REVISED_ROWS = 4096


@dataclass(frozen=True)
class Settings:
    """All that decides a fit beside the data and its limits: equal settings give equal bits."""

    n_features: int
    algorithm: str
    features: str
    weight_precision: str
    priors: Priors
    batch_size: int
    step_delay: float
    step_decay: float
    init: str
    noise: str
    held_out: float
    options: dict[str, Any]
    device: str
    key: int
    """Of the stream of random numbers."""
    most_features: int = 0
    """Up to how many features a revision may add to; 0 where features are not revised."""

    @property
    def stream(self) -> Stream:
        """Where every random number comes from."""
        return Stream(self.key)

    def chosen(self, n_jobs: int | None) -> Algorithm:
        """Return the algorithm with its options."""
        return algorithm(self.algorithm, device=self.device, **self.options, **self.threads(n_jobs))

    def threads(self, n_jobs: int | None) -> dict[str, Any]:
        """Return the option that limits threads, which only the kernels of the CPU have."""
        return {"n_jobs": n_jobs} if self.device == "cpu" else {}

    def document(self) -> dict[str, Any]:
        """Return the settings as JSON can say them."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Settings:
        """Return the settings of a document."""
        return cls(**{**document, "priors": Priors(**document["priors"])})


class HeldOut(NamedTuple):
    """Rows of which some entries are held out, the values of those, and which they are."""

    batch: Batch
    truth: Array
    mask: NDArray[np.bool_]


class Best(NamedTuple):
    """The posterior that has predicted held-out entries best so far."""

    step: int
    log_likelihood: float
    posterior: Posterior


class Fit:
    """A fit that can be looked at while it runs.

    Parameters
    ----------
    rows : Rows
        As the model is to see them.
    settings : Settings
    limits : Limits
    units : array, shape (n_columns,), optional
        What is 1 in the rows, in the units that held-out entries are to be scored in.
    n_jobs : int, optional
    step, posterior, history, best
        Where an earlier fit of the same settings stood.
    """

    def __init__(
        self,
        rows: Rows,
        settings: Settings,
        limits: Limits,
        *,
        units: Array | None = None,
        n_jobs: int | None = None,
        step: int = 0,
        posterior: Posterior | None = None,
        history: History | None = None,
        best: Best | None = None,
    ) -> None:
        self.settings, self.limits, self.units, self.n_jobs = settings, limits, units, n_jobs
        self.step, self.posterior = step, posterior
        self.history = history or History()
        # Waiting for a better score goes beyond the best one. A chain over all rows gains by its length.
        self._keeps_best = limits.patience is not None and settings.algorithm != "gibbs"
        self.best = best if self._keeps_best else None
        self.stopped_by: str | None = None
        self.rows: Rows = rows
        self.held_out: HeldOut | None = None
        if settings.held_out > 0:
            hidden_rows = HeldOutRows(rows, settings.held_out, settings.stream)
            self.rows = hidden_rows
            rng = settings.stream.child("held out").generator(0)
            self.held_out = HeldOut(*hidden_rows.take_held_out(sample_ids(rows, SCORED_ROWS, rng)))
            if not self.held_out.mask.any():
                raise ValueError(
                    f"held_out={settings.held_out}: no entry of {rows.n_rows} x {rows.n_columns} is held "
                    "out; expected a larger share, or 0"
                )

    def steps(self, callbacks: Sequence[Callback] = ()) -> Generator[Progress, None, None]:
        """Run until a limit is reached or a callback ends it; the state is up to date at every yield."""
        began, before = time.perf_counter(), self.history.seconds
        if self.step and self.limits.reached(self.step, self.history):
            self.stopped_by = self.limits.reached(self.step, self.history)
            return
        with closing(self._revising()) as training:
            for progress in training:
                score = self.score() if self._due(progress.step) else None
                if score is not None:
                    self._note(score)
                self.history.add(progress, before + time.perf_counter() - began, score)
                self.stopped_by = self.limits.reached(progress.step, self.history)
                # Every one is called, also after one has ended the fit.
                answers = [callback(progress, self.history) for callback in callbacks]
                if any(answers):
                    self.stopped_by = self.stopped_by or "callback"
                yield progress
                if self.stopped_by:
                    return

    def _revising(self) -> Generator[Progress, None, None]:
        """Train, and begin anew from every revision of the features."""
        while True:
            with closing(self._training()) as training:
                for progress in training:
                    self.step, self.posterior = progress.step, progress.posterior
                    revised = (
                        bool(self.settings.most_features) and self._due(progress.step) and self._revise()
                    )
                    yield progress._replace(posterior=self.posterior)
                    if revised:
                        break

    def _training(self) -> Generator[Progress, None, None]:
        """Return the steps from where the fit stands."""
        settings = self.settings
        return train(
            self.rows,
            settings.n_features,
            algorithm=settings.algorithm,
            features=settings.features,
            weight_precision=settings.weight_precision,
            priors=settings.priors,
            n_steps=None,
            batch_size=settings.batch_size,
            schedule=Schedule(settings.step_delay, settings.step_decay),
            init=settings.init,
            seed=settings.stream,
            device=settings.device,
            posterior=self.posterior,
            first_step=self.step + 1,
            **settings.options,
            **settings.threads(self.n_jobs),
        )

    def _revise(self) -> bool:
        """Look at the features, if that is asked for; return whether the posterior is another one now."""
        if not self.settings.most_features:
            return False
        posterior, stream = on_host(self.posterior), self.settings.stream.child("revision")
        revision = revise(
            posterior,
            lambda proposed: self._scored(proposed, integrated=True).log_likelihood,
            self.rows.take(sample_ids(self.rows, REVISED_ROWS, stream.generator(self.step))),
            self.settings.chosen(self.n_jobs),
            most=self.settings.most_features,
            stream=stream.child(str(self.step)),
        )
        if revision.kept:
            self.posterior = revision.posterior
        return bool(revision.kept)

    def _note(self, score: HeldOutScore) -> None:
        """Remember the posterior if no other has had a better score."""
        if self._keeps_best and (self.best is None or score.log_likelihood > self.best.log_likelihood):
            self.best = Best(self.step, score.log_likelihood, on_host(self.posterior))

    def _due(self, step: int) -> bool:
        between = SWEEPS_BETWEEN_SCORES if self.settings.algorithm == "gibbs" else STEPS_BETWEEN_SCORES
        return self.held_out is not None and step % between == 0

    def score(self) -> HeldOutScore:
        """Score the held-out entries with the posterior as it is."""
        return self._scored(on_host(self.posterior))

    def _scored(self, posterior: Posterior, *, integrated: bool = False) -> HeldOutScore:
        assert self.held_out is not None
        return score_rows(
            posterior,
            *self.held_out,
            self.settings.chosen(self.n_jobs),
            n_draws=SCORED_DRAWS,
            stream=self.settings.stream.child("scores"),
            integrated=integrated,
            units=self.units,
        )
