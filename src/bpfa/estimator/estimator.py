"""BPFA, the scikit-learn face: fit, transform, impute, score, save."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bpfa._support.checks import check_instance
from bpfa._support.files import check_writable
from bpfa._support.threads import check_jobs, limited_threads
from bpfa.estimator.diagnostics import DiagnosticsMixin
from bpfa.estimator.inputs import new_table, rows_like_those_of_the_fit
from bpfa.estimator.model_file import read_outcome, write_outcome
from bpfa.estimator.parameters import DEFAULTS, check_parameters, scikit_learn_constraints
from bpfa.estimator.planning import column_scale, plan_first_part, plan_fit, plan_next_part
from bpfa.estimator.publishing import publish
from bpfa.estimator.resuming import Resumed, file_to_resume
from bpfa.fitting.checkpoint import Checkpoint, as_checkpoint
from bpfa.fitting.run import Callback, Outcome, run
from bpfa.model.posterior import GlobalPosterior
from bpfa.model.priors import Priors

__all__ = ["BPFA"]


def _learns_by_steps(model: BPFA) -> bool:
    """Return whether rows can come a few at a time; a chain over all rows needs them all."""
    if model.algorithm == "gibbs":
        raise AttributeError("algorithm='gibbs' needs all rows at once: use fit")
    return True


class BPFA(DiagnosticsMixin, BaseEstimator):
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = scikit_learn_constraints()
    _outcome: Outcome

    def __init__(
        self,
        n_components: int | None = DEFAULTS.n_components,
        *,
        algorithm: str = DEFAULTS.algorithm,
        features: str = DEFAULTS.features,
        weight_precision: str = DEFAULTS.weight_precision,
        priors: Priors | None = DEFAULTS.priors,
        batch_size: int | None = DEFAULTS.batch_size,
        max_epochs: float | None = DEFAULTS.max_epochs,
        max_steps: int | None = DEFAULTS.max_steps,
        max_time: float | None = DEFAULTS.max_time,
        step_delay: float = DEFAULTS.step_delay,
        step_decay: float = DEFAULTS.step_decay,
        burn_in: int = DEFAULTS.burn_in,
        n_samples: int = DEFAULTS.n_samples,
        dropout: float | None = DEFAULTS.dropout,
        n_sweeps: int = DEFAULTS.n_sweeps,
        init: str = DEFAULTS.init,
        standardize: bool = DEFAULTS.standardize,
        noise: str = DEFAULTS.noise,
        held_out: float = DEFAULTS.held_out,
        patience: int | None = DEFAULTS.patience,
        revise: bool = DEFAULTS.revise,
        total_rows: int | None = DEFAULTS.total_rows,
        sparse_output: bool = DEFAULTS.sparse_output,
        device: str = DEFAULTS.device,
        n_jobs: int | None = DEFAULTS.n_jobs,
        random_state: Any = DEFAULTS.random_state,
        verbose: int = DEFAULTS.verbose,
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
        parameters = check_parameters(self.get_params())
        checkpoint = as_checkpoint(checkpoint)
        table, resumed = new_table(self, X, missing), self._resumed(resume, checkpoint)
        n_jobs = check_jobs(self.n_jobs)
        with limited_threads(n_jobs):
            scale = column_scale(table.rows, standardize=parameters.standardize)
            plan = plan_fit(table, scale, parameters, resumed, n_jobs)
            save = None if checkpoint is None else partial(write_outcome, checkpoint.path, self.get_params())
            outcome = run(plan, callbacks=callbacks, verbose=self.verbose, checkpoint=checkpoint, save=save)
        return self._publish(outcome)

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
        parameters, n_jobs = check_parameters(self.get_params()), check_jobs(self.n_jobs)
        with limited_threads(n_jobs):
            if hasattr(self, "_outcome"):
                check_instance("posterior_", self._outcome.posterior, GlobalPosterior)
                rows = rows_like_those_of_the_fit(self, X, missing)
                plan = plan_next_part(rows, parameters, self._outcome, n_jobs)
            else:
                table = new_table(self, X, missing)
                scale = column_scale(table.rows, standardize=parameters.standardize)
                plan = plan_first_part(table, scale, parameters, n_jobs)
            outcome = run(plan)
        return self._publish(outcome)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model, with all that is needed to use it and to go on training.

        Parameters
        ----------
        path : path-like
            A file that is there is replaced when the new one is whole.
        """
        check_is_fitted(self)
        write_outcome(path, self.get_params(deep=False), self._outcome)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved model.

        Parameters
        ----------
        path : path-like
            Nothing in the file is ever executed. A file that is not ours, is damaged, or comes from a later
            version is refused with a ValueError.
        """
        parameters, outcome = read_outcome(path)
        model = cls(**parameters)
        publish(model, outcome)
        return model

    def _resumed(
        self, resume: bool | str | os.PathLike[str], checkpoint: Checkpoint | None
    ) -> Resumed | None:
        """Return the saved fit that this one is to continue, if any."""
        if checkpoint is not None:
            check_writable(checkpoint.path)
        path = file_to_resume(resume, checkpoint)
        if path is None:
            return None
        parameters, outcome = read_outcome(path)
        return Resumed(path, check_parameters(parameters), outcome)

    def _publish(self, outcome: Outcome) -> Self:
        """Set the fitted attributes, and pass on what ended the run early."""
        publish(self, replace(outcome, error=None))
        if outcome.error is not None:
            raise outcome.error
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
