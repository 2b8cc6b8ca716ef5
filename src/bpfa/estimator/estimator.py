"""BPFA, the scikit-learn face: fit, transform, impute, score, save."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bpfa._support.checks import check_instance, check_integer
from bpfa._support.files import check_writable
from bpfa._support.philox import Stream
from bpfa._support.threads import limited_threads
from bpfa.backends.cuda.posterior import DevicePosterior, on_host
from bpfa.data import Batch, HeldOutRows, Rows, Scale, StandardisedRows, column_moments, sequential
from bpfa.estimator.diagnostics import ReadingMixin
from bpfa.estimator.inputs import rows_of_input
from bpfa.estimator.model_file import load_into, pack_model
from bpfa.estimator.parameters import Start, limits_of, settings_of
from bpfa.estimator.resuming import file_to_resume, state_of
from bpfa.estimator.storage import write_model
from bpfa.fitting.checkpoint import Checkpoint, Clock
from bpfa.fitting.history import History
from bpfa.fitting.progress_bar import progress_bar
from bpfa.fitting.run import Callback, Fit, Settings
from bpfa.inference.progress import NonFiniteError, Posterior, Progress
from bpfa.inference.schedule import Schedule
from bpfa.inference.svi import svi_step
from bpfa.inference.training import INITIALISERS
from bpfa.model.posterior import GlobalPosterior
from bpfa.model.priors import Priors
from bpfa.prediction.predictions import feature_means, usage
from bpfa.selection import defaults
from bpfa.selection.column_noise import column_noise
from bpfa.selection.component_count import component_count
from bpfa.selection.sparse_start import sparse_is_better

__all__ = ["BPFA"]


def _learns_by_steps(model: BPFA) -> bool:
    """Return whether rows can come a few at a time; a chain over all rows needs them all."""
    if model.algorithm == "gibbs":
        raise AttributeError("algorithm='gibbs' needs all rows at once: use fit")
    return True


class BPFA(ReadingMixin, BaseEstimator):
    """Beta process factor analysis: each row is a weighted sum of a few features out of many, plus noise.

    The features, how many are needed, which of them a row uses, the weights and the noise are learned. NaN is
    a missing entry; nothing is filled in beforehand.

    Parameters
    ----------
    n_components : int, optional
        Largest number of features K; those the data does not need stay unused. By default as many as predict
        hidden entries best in a quick factor analysis, at most two for three columns and at most 256; and
        three times as many, at most 128, where each row has a few of many features (see `init`).
    algorithm : str
        "gibbs-ssvi", "titsias-ssvi", "mf-ssvi", "mimno-svi", "titsias-svi", "mf-svi", or "gibbs" for the
        uncollapsed Gibbs sampler, which keeps every row in memory.
    features : {"auto", "joint", "factorised"}
        Form of the posterior of the features. "joint" keeps their dependence, in n_columns x K x K numbers;
        "auto" does where they take less than 64 MiB and the algorithm sees draws.
    weight_precision : {"auto", "active", "all"}
        What the weight precision is learned from; "auto" is the weights in use, or all for the mean-field
        kinds.
    priors : Priors, optional
    batch_size : int, optional
        Rows of a step; 1024 by default.
    max_epochs : float, optional
        Passes over the data; by default 10, and at least 2000 steps, or 100 where all features start as
        principal components and are not revised, or 500 where the data asks for others (see `init`).
    max_steps : int, optional
        Steps (sweeps for "gibbs"); the first limit that is reached ends the fit.
    max_time : float, optional
        Seconds.
    step_delay, step_decay : float
        Step t has size (t + step_delay)^-step_decay.
    burn_in, n_samples : int
        Sweeps of a row's chain that are dropped and kept in a step, for the Gibbs kinds.
    dropout : float, optional
        Share of a row's entries, others at every step, that its chain does not see while features and noise
        learn from all of them, for "gibbs-ssvi". It keeps features from fitting single entries where rows
        have few of many; where they have most of them it loses. By default a tenth where the data asks for
        such features (see `init`), else 0.
    n_sweeps : int
        Sweeps over the features in a step, for the variational kinds.
    init : {"auto", "principal", "common", "random", "data", "gibbs"}
        Where the features start: principal components; those of them that stand out, with twice the average
        variance of a column, and draws from the prior; such draws alone; rows of the data; or a Gibbs run on
        a subset. "auto" is the first up to 2048 columns, and random draws beyond. With more features than two
        for three columns the first is the second. Where `n_components` is left open too, "auto" is the second
        if a short fit from there, to some rows, predicts hidden entries clearly better than factor analysis;
        it is tried by `fit`, with "gibbs-ssvi" and joint features, without `revise`, from 300 rows and up to
        128 columns; the logger "bpfa" tells when it is chosen.
    standardize : bool
        Bring every column to mean 0 and variance 1 first, by its observed entries, and undo it on the way
        out. Without it the data should be so: the model has no intercept.
    noise : {"auto", "columns", "shared"}
        Whether every column has a noise level of its own, or all columns one in common, as a share of their
        scale. How columns compare is settled before the fit, by factor analysis of their covariances; the fit
        learns the level. "auto" is "columns" up to 2048 of them.
    held_out : float
        Share of the entries to hide from the fit and to score every 50 steps, in 1000 rows.
    patience : int, optional
        End the fit when so many held-out scores in a row have not improved, and keep the model that had the
        best score, not the last one.
    revise : bool
        Whenever held-out entries are scored, try to drop features that explain little, to merge near
        doubles, and to add features that badly explained rows ask for, and keep each change that raises the
        score: K is then the model's choice, up to `n_components`, or up to two for three columns and 256.
    total_rows : int, optional
        For `partial_fit`: the number of rows of the whole stream, which says how much the prior weighs. By
        default those seen so far.
    sparse_output : bool
        Let `transform` return a CSR array.
    device : {"auto", "cpu", "cuda", "cuda:1", ..., "numpy"}
        "auto" is a GPU where one can be used, and the CPU elsewhere; "numpy" is the readable specification,
        many times slower. A device that is asked for by name is used, or an error says what is in the way.
    n_jobs : int, optional
        Threads; all by default. Fits side by side, as in a search with processes of its own, want 1 each:
        threads that wait for one another keep their cores.
    random_state : int, RandomState or None
        The same seed gives the same bits for any number of threads.
    verbose : int
        1 shows a progress bar in terminals and notebooks.

    Attributes
    ----------
    components_ : array, shape (K, n_columns)
        Features in the units of the data, the most used first.
    component_probabilities_ : array, shape (K,)
        Share of the rows that use each feature.
    noise_std_ : array, shape (n_columns,)
        Noise in the units of the data.
    n_components_used_ : int
        Features that more than one row in a thousand uses.
    mean_, scale_ : arrays, shape (n_columns,)
        What `standardize` takes out.
    noise_ratio_ : array, shape (n_columns,)
        Noise of the columns beside one another, in units of `scale_`; the mean of the squares is 1.
    history_ : dict of arrays
        step, epoch, seconds, step_size, noise_std (as a share of a column's deviation, root mean square over
        the columns), n_active, held_out_log_likelihood, held_out_mse (NaN where not taken);
        `pandas.DataFrame(model.history_)`.
    n_steps_ : int
    best_step_ : int
        Step after which the model was as it is kept: the last one, or, with `patience`, that of the best
        held-out score.
    stopped_by_ : str
        "max_steps", "max_time", "patience", "callback", or "interrupt".
    posterior_ : GlobalPosterior or ChainPosterior
        In standardised units, in its own order of features.
    settings_ : Settings
        What the parameters came to.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from bpfa import BPFA, draw_data
    >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
    >>> X[0, 0] = np.nan
    >>> model = BPFA(n_components=8, max_steps=200, random_state=0).fit(X)
    >>> model.transform(X).shape
    (500, 8)
    >>> filled, std = model.impute(X, return_std=True)
    >>> bool(np.isfinite(filled).all()), bool(std[0, 0] > 0), float(std[0, 1])
    (True, True, 0.0)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        algorithm: str = "gibbs-ssvi",
        features: str = "auto",
        weight_precision: str = "auto",
        priors: Priors | None = None,
        batch_size: int | None = None,
        max_epochs: float | None = None,
        max_steps: int | None = None,
        max_time: float | None = None,
        step_delay: float = 20.0,
        step_decay: float = 0.6,
        burn_in: int = 3,
        n_samples: int = 3,
        dropout: float | None = None,
        n_sweeps: int = 10,
        init: str = "auto",
        standardize: bool = True,
        noise: str = "auto",
        held_out: float = 0.0,
        patience: int | None = None,
        revise: bool = False,
        total_rows: int | None = None,
        sparse_output: bool = False,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.algorithm = algorithm
        self.features = features
        self.weight_precision = weight_precision
        self.priors = priors
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.max_steps = max_steps
        self.max_time = max_time
        self.step_delay = step_delay
        self.step_decay = step_decay
        self.burn_in = burn_in
        self.n_samples = n_samples
        self.dropout = dropout
        self.n_sweeps = n_sweeps
        self.init = init
        self.standardize = standardize
        self.noise = noise
        self.held_out = held_out
        self.patience = patience
        self.revise = revise
        self.total_rows = total_rows
        self.sparse_output = sparse_output
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        missing: Any = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        resume: bool | str | os.PathLike[str] = False,
    ) -> Self:
        """Learn the features, their use and the noise.

        Interrupted by Ctrl-C, the model keeps what it has learned so far, saves its checkpoint, and passes
        the interrupt on.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows, shape (n_rows, n_columns)
            NaN is missing. For files and sparse matrices see `open_rows`.
        y : ignored
        missing : boolean array-like, optional
            True where an entry is missing, beside those that are NaN.
        callbacks : sequence of callables
            Each is called with the `Progress` and the `History` after every step; a true answer ends the fit.
        checkpoint : path or Checkpoint, optional
            Save the fit there while it runs, every five minutes unless a `Checkpoint` says otherwise.
        resume : bool or path
            Go on from a saved fit of the same data and parameters, to the same bits as if it had never been
            stopped; limits may be extended. True takes the checkpoint when there is one.

        Returns
        -------
        self
        """
        rows = rows_of_input(self, X, missing, reset=True)
        checkpoint = _as_checkpoint(checkpoint)
        if checkpoint is not None:
            check_writable(checkpoint.path)
        file, threads = file_to_resume(resume, checkpoint), self._threads()
        earlier = None if file is None else type(self).load(file)
        with limited_threads(threads):
            standardised, settings = self._settled(rows, rows.n_rows, earlier, trying=True)
        saved: dict[str, Any] = {}
        if earlier is not None:
            assert file is not None
            any_seed = self.random_state is None
            saved = state_of(earlier, file, settings, standardised, any_seed=any_seed)
        settings = saved.pop("settings", settings)
        limits = limits_of(self.get_params(), settings, rows.n_rows, rows.n_columns)
        with progress_bar(limits, verbose=self.verbose) as show, limited_threads(threads):
            scale = saved.pop("scale", None) or _noise_scaled(standardised, settings)
            seen = StandardisedRows(rows, scale.mean, scale.unit)
            fit = Fit(seen, settings, limits, units=scale.noise_ratio, n_jobs=threads, **saved)

            def save() -> None:
                last, best = on_host(fit.posterior), fit.best
                how = fit.step, fit.history, fit.stopped_by, scale, rows.n_rows
                if best is None or best.step == fit.step:
                    self._keep(fit.settings, last, *how)
                else:
                    self._keep(fit.settings, best.posterior, *how, best_step=best.step, last=last)
                if checkpoint is not None:
                    self.save(checkpoint.path)

            try:
                clock = None if checkpoint is None else Clock(checkpoint, fit.step)
                for progress in fit.steps(callbacks):
                    show(fit.history, progress.epoch * rows.n_rows)
                    if clock is not None and clock.due(progress.step):
                        save()
                        clock.saved(progress.step)
                _refuse_failure(fit)
            except (KeyboardInterrupt, NonFiniteError) as error:
                fit.stopped_by = "interrupt" if isinstance(error, KeyboardInterrupt) else "failure"
                if fit.posterior is not None:
                    save()
                raise
        save()
        return self

    @available_if(_learns_by_steps)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, *, missing: Any = None) -> Self:
        """Learn from some more rows: one pass over them, a step for every `batch_size` rows.

        The first call settles the columns, their mean, scale and noise beside one another, and the number of
        features, as common factors: a start for features that few rows have is not tried, as it wants more
        steps than a pass.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        y : ignored
        missing : boolean array-like, optional

        Returns
        -------
        self
        """
        first = not hasattr(self, "posterior_")
        rows = rows_of_input(self, X, missing, reset=first)
        n_seen = 0 if first else self.n_rows_seen_
        total = self.total_rows or n_seen + rows.n_rows
        check_integer("total_rows", total, low=1)
        if first:
            history, step = History(), 0
            standardised, settings = self._settled(rows, total)
            scale = _noise_scaled(standardised, settings)
        else:
            settings, history, step = self.settings_, History(self.history_), self.n_steps_
            scale = Scale(self.mean_, self.scale_, self.noise_ratio_)
        seen = StandardisedRows(rows, scale.mean, scale.unit)
        if first:
            start = INITIALISERS[settings.init]
            form = {"features": settings.features, "weight_precision": settings.weight_precision}
            posterior: Posterior = start(
                seen, settings.n_features, settings.priors, seed=settings.stream, **form
            )
        else:
            posterior = self.posterior_
        check_instance("posterior_", posterior, GlobalPosterior)
        assert isinstance(posterior, GlobalPosterior)
        n_rows = max(total, n_seen + rows.n_rows)
        moving: Any = replace(posterior, n_rows=n_rows)
        if settings.device.startswith("cuda"):
            moving = DevicePosterior.of(moving, settings.device, "float32")
        schedule = Schedule(settings.step_delay, settings.step_decay)
        chosen = settings.chosen(self._threads())
        began, before = time.perf_counter(), history.seconds
        with limited_threads(self.n_jobs):
            for batch in sequential(seen, block_rows=settings.batch_size):
                step, rho = step + 1, schedule(step + 1)
                keyed = Batch(batch.values, batch.observed, batch.ids + n_seen)
                moving = svi_step(moving, keyed, chosen, step=step, rho=rho, stream=settings.stream)
                progress = Progress(step, (n_seen + len(batch)) / n_rows, 0.0, rho, moving)
                history.add(progress, before + time.perf_counter() - began)
        n_seen += rows.n_rows
        self._keep(settings, on_host(moving), step, history, "partial_fit", scale, n_seen)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model, with all that is needed to use it and to go on training.

        Parameters
        ----------
        path : path-like
            A file that is there is replaced when the new one is whole.
        """
        check_is_fitted(self)
        write_model(path, *pack_model(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved model.

        Parameters
        ----------
        path : path-like
            Nothing in the file is ever executed. A file that is not ours, is damaged, or comes from a later
            version is refused with a ValueError.
        """
        model = cls()
        load_into(model, path)
        return model

    def _threads(self) -> int | None:
        return None if self.n_jobs is None else check_integer("n_jobs", self.n_jobs, low=1)

    def _settled(
        self, rows: Rows, n_rows: int, earlier: BPFA | None = None, *, trying: bool = False
    ) -> tuple[StandardisedRows, Settings]:
        """Return the rows as the model is to see them, and the settings, with the start of an earlier fit.

        Without one, `trying` lets a short fit choose between two starts.
        """
        if not isinstance(self.standardize, (bool, np.bool_)):
            raise TypeError(f"standardize={self.standardize!r}: expected True or False")
        scaled = cache(lambda: self._scaled(rows))

        def choose(largest: int, settings: Settings) -> Start:
            if earlier is not None:
                theirs, open_in_both = earlier.settings_, self.init == earlier.init == "auto"
                return Start(theirs.n_features, theirs.init if open_in_both else settings.init)
            if rows.n_columns > defaults.FEW_COLUMNS:
                return Start(largest, settings.init)
            visible = _visible(scaled(), self.held_out, settings.stream)
            n_factors = component_count(visible, largest, settings.stream.child("count"))
            n_sparse = defaults.sparse_components(n_factors, rows.n_rows, rows.n_columns)
            worth_trying = trying and n_sparse and self._may_be_sparse()
            dropout = defaults.SPARSE_DROPOUT if self.dropout is None else self.dropout
            if worth_trying and sparse_is_better(
                visible, n_factors, n_sparse, settings, dropout=dropout, n_jobs=self._threads()
            ):
                logging.getLogger("bpfa").info("init='auto': %d features that few rows have", n_sparse)
                return Start(n_sparse, "common")
            return Start(n_factors, settings.init)

        settings = settings_of(self.get_params(), n_rows, rows.n_columns, choose)
        return scaled(), settings

    def _may_be_sparse(self) -> bool:
        """Return whether the start is open, and the fit of the kind that trials of a sparse one speak for."""
        of_this_kind = self.algorithm == "gibbs-ssvi" and self.features != "factorised" and not self.revise
        return self.init == "auto" and of_this_kind

    def _scaled(self, rows: Rows) -> StandardisedRows:
        """Return the rows as the model is to see them."""
        if not self.standardize:
            return StandardisedRows(rows, np.zeros(rows.n_columns), np.ones(rows.n_columns))
        moments = column_moments(rows)
        return StandardisedRows(rows, moments.mean, moments.scale)

    def _keep(
        self,
        settings: Settings,
        posterior: Posterior | None,
        n_steps: int,
        history: History,
        stopped_by: str | None,
        scale: Scale,
        n_rows_seen: int,
        best_step: int | None = None,
        last: Posterior | None = None,
    ) -> None:
        """Set the fitted attributes, all of them at once; `last` is where to go on, if not at `posterior`."""
        assert posterior is not None
        self.settings_, self.posterior_, self.n_steps_ = settings, posterior, n_steps
        self.best_step_, self._last = n_steps if best_step is None else best_step, last
        self.history_, self.stopped_by_ = history.arrays(), stopped_by
        self.mean_, self.scale_, self.noise_ratio_ = scale
        self.n_rows_seen_ = n_rows_seen
        share = usage(posterior)
        self._order = np.argsort(-share, kind="stable")
        self.component_probabilities_ = share[self._order]
        self.components_ = feature_means(posterior)[self._order] * scale.unit
        self.noise_std_ = posterior.noise_std * scale.unit
        self.n_components_used_ = posterior.n_active()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _noise_scaled(standardised: StandardisedRows, settings: Settings) -> Scale:
    """Return the units in which the noise of all columns is the same."""
    ratio, stream = np.ones(standardised.n_columns), settings.stream
    if settings.noise == "columns":
        visible = _visible(standardised, settings.held_out, stream)
        ratio = column_noise(visible, settings.n_features, stream.child("column noise"))
    return Scale(standardised.mean, standardised.scale, ratio)


def _visible(rows: Rows, held_out: float, stream: Stream) -> Rows:
    """Return the rows without what is held out from the fit."""
    return HeldOutRows(rows, held_out, stream) if held_out > 0 else rows


def _refuse_failure(fit: Fit) -> None:
    """Refuse a fit on a device one of whose last steps could not be made."""
    if isinstance(fit.posterior, DevicePosterior):
        try:
            fit.posterior.check_finite()
        except ValueError as error:
            raise NonFiniteError(fit.step, fit.posterior.host, str(error)) from error


def _as_checkpoint(checkpoint: Checkpoint | str | os.PathLike[str] | None) -> Checkpoint | None:
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    return Checkpoint(checkpoint)
