"""The training loop: it runs a plan from its start, or from where an earlier run ended, to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from bpfa.data import sample_ids
from bpfa.data.batches import BatchEffects
from bpfa.data.remote import RowsLostError
from bpfa.data.scaling import Scale
from bpfa.data.sketch import EntrySketch
from bpfa.fitting.checkpoint import Checkpoint, Clock, Saver
from bpfa.fitting.history import History
from bpfa.fitting.plan import Best, Plan
from bpfa.fitting.progress_bar import progress_bar
from bpfa.fitting.revision import revise
from bpfa.inference.progress import NonFiniteError, Progress
from bpfa.inference.settings import Settings
from bpfa.inference.training import train
from bpfa.model.posterior import Posterior
from bpfa.prediction.groups import LikeRows
from bpfa.prediction.scores import HeldOutScore, score_rows

__all__ = ["Callback", "Outcome", "run"]

Callback = Callable[[Progress, History], Any]
"""Called after every step; if it returns a true value, the fit ends."""

# Draws from the posterior that score held-out entries.
SCORING_DRAWS = 10
# How often they are scored: in steps, or in sweeps of the uncollapsed sampler.
STEPS_BETWEEN_SCORES, SWEEPS_BETWEEN_SCORES = 50, 5
# The number of rows among which a revision seeks badly explained ones.
REVISION_ROWS = 4096


@dataclass(frozen=True)
class Outcome:
    """The result of a run, at its end or at a checkpoint."""

    settings: Settings
    scale: Scale
    posterior: Posterior
    """The posterior to use: the last one or, with `patience`, the one with the best held-out score."""
    last: Posterior | None
    """The posterior from which training continues, if it is not the one to use."""
    n_steps: int
    best_step: int
    history: dict[str, NDArray[Any]]
    stopped_by: str | None
    n_rows_seen: int
    column_names: NDArray[Any] | None
    data_digest: str | None = None
    """Digest of the data. None after `partial_fit`, and in files that were saved without a digest."""
    sketch: EntrySketch | None = None
    """A sample of the entries that the model has seen. None if they cannot be recognised: in files that were
    saved without it, and for patches of pictures."""
    spared: NDArray[Any] | None = None
    """Columns of which nothing was held out, because no entry of them would have been left."""
    loading_probabilities: NDArray[Any] | None = None
    """The probability that a column uses a feature, K x D, if the model has sparse columns."""
    notes: dict[str, Any] | None = None
    """What the user of the model has noted about its rows, for example the size of patches."""
    batches: BatchEffects | None = None
    """The effects of batches, if rows have labels of batches."""
    like_rows: LikeRows | None = None
    """The groups of like rows by which rows are predicted, if they predict better than the model alone."""
    error: BaseException | None = None
    """The error or interrupt that ended the run early; the outcome is then that of the last good step."""


def run(
    plan: Plan,
    *,
    callbacks: Sequence[Callback] = (),
    verbose: int = 0,
    checkpoint: Checkpoint | None = None,
    save: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Run a plan to its end.

    Parameters
    ----------
    plan : Plan
    callbacks : sequence of callables
    verbose : int
        1 shows a progress bar in terminals and notebooks.
    checkpoint : Checkpoint, optional
        How often to save.
    save : callable, optional
        Saves an outcome; needed if a checkpoint is given. It is also called at the end of the run. If it
        raises an OSError, for example because the disk is full, there is a warning and the run goes on.

    Returns
    -------
    Outcome
        An interrupt (Ctrl-C), a number that is not finite, or rows that cannot be reached any more end the
        run. The outcome is then that of the last good step, and its `error` is the exception. If no step was
        completed, the exception is raised.
    """
    training = _Training(plan)
    saver = None if save is None else Saver(save, "" if checkpoint is None else checkpoint.path)
    error: BaseException | None = None
    with progress_bar(plan.limits, verbose=verbose) as show:
        try:
            clock = None if checkpoint is None else Clock(checkpoint, training.step)
            for progress in training.steps(callbacks):
                show(training.history, progress.epoch * plan.rows.n_rows)
                if clock is not None and saver is not None and clock.due(progress.step):
                    saver.while_running(training.outcome())
                    clock.saved(progress.step)
            training.check_finite()
        except (KeyboardInterrupt, NonFiniteError, RowsLostError) as caught:
            if training.step == plan.standing.step:
                raise
            error = caught
            training.stopped_by = "interrupt" if isinstance(caught, KeyboardInterrupt) else "failure"
    outcome = training.outcome(error)
    if saver is not None:
        saver.at_the_end(outcome)
    return outcome


class _Training:
    """The state of a run between its steps."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.settings = plan, plan.settings
        standing = plan.standing
        self.step, self.state, self.history = standing.step, standing.posterior, plan.history()
        # With patience, a fit ends some time after its best score, so the best posterior has to be kept. The
        # uncollapsed sampler averages over its chain instead, and gains from every further sweep.
        self._keeps_best = plan.limits.patience is not None and self.settings.algorithm != "gibbs"
        self.best = standing.best if self._keeps_best else None
        self.stopped_by: str | None = None

    def outcome(self, error: BaseException | None = None) -> Outcome:
        """Return the outcome of the steps so far."""
        assert self.state is not None
        plan, last, best = self.plan, self.state.host(), self.best
        superseded = best is not None and best.step != self.step
        outcome = Outcome(
            settings=self.settings,
            scale=plan.scale,
            posterior=best.posterior if best is not None and superseded else last,
            last=last if superseded else None,
            n_steps=self.step,
            best_step=best.step if best is not None and superseded else self.step,
            history=self.history.arrays(),
            stopped_by=self.stopped_by,
            n_rows_seen=plan.visits.rows_seen(plan.rows, self.step),
            column_names=plan.column_names,
            data_digest=plan.data_digest,
            sketch=plan.sketch,
            spared=plan.spared,
            batches=plan.batches,
            error=error,
        )
        return outcome if plan.converted is None else plan.converted(outcome)

    def steps(self, callbacks: Sequence[Callback]) -> Generator[Progress, None, None]:
        """Train until a limit is reached or a callback ends the fit; the state is current at every yield."""
        began, before, limits = time.perf_counter(), self.history.seconds, self.plan.limits
        if self.step and limits.reached(self.step, self.history):
            self.stopped_by = limits.reached(self.step, self.history)
            return
        with closing(self._steps_with_revisions()) as training:
            for progress in training:
                score = self._score_and_keep_best() if self._scores_are_due(progress.step) else None
                self.history.add(progress, before + time.perf_counter() - began, score)
                self.stopped_by = limits.reached(progress.step, self.history)
                # Every callback is called, even after one of them has ended the fit.
                answers = [callback(progress, self.history) for callback in callbacks]
                if any(answers):
                    self.stopped_by = self.stopped_by or "callback"
                yield progress
                if self.stopped_by:
                    return
        self.stopped_by = "partial_fit"

    def _steps_with_revisions(self) -> Generator[Progress, None, None]:
        """Train, and restart the training after every revision of the features."""
        while True:
            revised = False
            with closing(self._steps_from_here()) as training:
                for progress in training:
                    self.step, self.state = progress.step, progress.state
                    revised = self._scores_are_due(progress.step) and self._revise()
                    yield progress._replace(state=self.state) if revised else progress
                    if revised:
                        break
            if not revised:
                return

    def _steps_from_here(self) -> Generator[Progress, None, None]:
        """Return the steps from the present state on."""
        plan, settings = self.plan, self.settings
        return train(
            plan.rows,
            settings.n_features,
            algorithm=settings.algorithm,
            features=settings.features,
            weight_precision=settings.weight_precision,
            priors=settings.priors,
            n_steps=None,
            batch_size=settings.batch_size,
            visits=plan.visits,
            schedule=settings.schedule,
            init=settings.init,
            seed=settings.stream,
            device=settings.device,
            posterior=self.state,
            first_step=self.step + 1,
            **settings.local_options(plan.n_jobs),
        )

    def _revise(self) -> bool:
        """Revise the features if the settings ask for it; return whether the posterior has changed."""
        if not self.settings.most_features:
            return False
        assert self.state is not None
        rows, stream = self.plan.rows, self.settings.stream.child("revision")
        revision = revise(
            self.state.host(),
            lambda proposed: self._score_of(proposed, integrated=True).log_likelihood,
            rows.take(sample_ids(rows, REVISION_ROWS, stream.generator(self.step))),
            self.settings.make_algorithm(self.plan.n_jobs),
            most=self.settings.most_features,
            stream=stream.child(str(self.step)),
        )
        if revision.kept:
            self.state = revision.posterior
        return bool(revision.kept)

    def check_finite(self) -> None:
        """Raise an error if the last posterior, which a device may still compute, is not finite."""
        if self.state is not None:
            try:
                self.state.check_finite()
            except ValueError as error:
                raise NonFiniteError(self.step, self.state.host(), str(error)) from error

    def _scores_are_due(self, step: int) -> bool:
        between = SWEEPS_BETWEEN_SCORES if self.settings.algorithm == "gibbs" else STEPS_BETWEEN_SCORES
        return self.plan.held_out is not None and step % between == 0

    def _score_and_keep_best(self) -> HeldOutScore:
        """Score the held-out entries, and keep the posterior if its score is the best so far."""
        assert self.state is not None
        posterior = self.state.host()
        score = self._score_of(posterior)
        if self._keeps_best and (self.best is None or score.log_likelihood > self.best.log_likelihood):
            self.best = Best(self.step, score.log_likelihood, posterior)
        return score

    def _score_of(self, posterior: Posterior, *, integrated: bool = False) -> HeldOutScore:
        assert self.plan.held_out is not None
        return score_rows(
            posterior,
            *self.plan.held_out,
            self.settings.make_algorithm(self.plan.n_jobs),
            n_draws=SCORING_DRAWS,
            stream=self.settings.stream.child("scores"),
            integrated=integrated,
            units=self.plan.scale.noise_ratio,
        )
