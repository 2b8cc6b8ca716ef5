"""BPFA, the scikit-learn estimator: its parameters, fit and partial_fit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from bpfa._support.threads import check_jobs, limited_threads, one_blas_thread
from bpfa.estimator.diagnostics import DiagnosticsMixin
from bpfa.estimator.findings import Findings
from bpfa.estimator.grouping import check_groups, with_like_rows
from bpfa.estimator.inputs import new_table, warn_of_empty_columns
from bpfa.estimator.model_file import write_outcome
from bpfa.estimator.overwriting import check_checkpoint, warn_of_replacement
from bpfa.estimator.parameters import DEFAULTS, check_parameters, scikit_learn_constraints
from bpfa.estimator.partial_fit import PartialFitMixin
from bpfa.estimator.planning import look_at
from bpfa.estimator.publishing import publish
from bpfa.estimator.remote import check_remote, released
from bpfa.estimator.resuming import saved_fit
from bpfa.estimator.saving import SavingMixin
from bpfa.estimator.sides import PLANS, chosen_side
from bpfa.fitting.checkpoint import Checkpoint, as_checkpoint
from bpfa.fitting.run import Callback, Outcome, run
from bpfa.model.priors import Priors

__all__ = ["BPFA"]


class BPFA(PartialFitMixin, SavingMixin, DiagnosticsMixin, BaseEstimator):
    """Beta process factor analysis: each row is a weighted sum of a few features out of many, plus noise.

    The model learns the features, how many of them the data needs, which features each row uses and with what
    weights, and the noise. Entries may be missing: mark them by NaN. They do not have to be filled in before
    the fit, and `impute` predicts them afterwards.

    Every parameter has a default, which is derived from the data where necessary, so `BPFA().fit(X)` is a
    good start.

    Parameters
    ----------
    n_components : int, optional
        Largest number of features, K. Features that the data does not need stay unused. By default K is
        derived from the data: it is the number of common factors that stand out from the noise or, if more
        of them predict hidden entries better, as many as that takes; at most two for every three columns or
        rows, and at most 256. With the sparse start "common" (see `init`), K is two for every column, but at
        most 128.
    algorithm : str, default="gibbs-ssvi"
        Inference algorithm. The six algorithms that learn from a batch of rows at a time are "gibbs-ssvi",
        "titsias-ssvi", "mf-ssvi", "mimno-svi", "titsias-svi" and "mf-svi". "gibbs" is the uncollapsed Gibbs
        sampler, which visits all rows in every step and keeps them in memory.
    sparse : {"auto", "rows", "columns"}, default="auto"
        Which side of the table uses a few features of many: every row, or every column. With "columns" the
        components are sparse (each column has loadings in a few of them), the weights of the rows are dense
        scores of variance 1, and the table has to fit into memory. "auto" is "rows" if there are at least as
        many rows as columns, or fewer than 20 rows. Otherwise both are fitted to a part of the table, and the
        one that predicts hidden entries better is taken; the logger "bpfa" reports which. `partial_fit` and
        "gibbs" support only "rows". Loadings are sparsest with `init="random"`.
    prefer : {"prediction", "balance", "readability"}, default="prediction"
        What the fit is to be best at. With "prediction" rows may use all features if that predicts best.
        The others are for features to be read. "balance" starts from rotated components (`init` is "varimax"
        and `dropout` 0.02, unless you set them), of which the data then decides how many a row uses; this
        costs little prediction. "readability" adds a prior for few features in a row. In both cases the
        number of features does not depend on `random_state`, and `transform` returns zero where a row uses a
        feature with a probability below 1/2.
    features : {"auto", "joint", "factorised"}, default="auto"
        Form of the posterior of the features. "joint" keeps the dependence between features, which takes
        n_columns x K x K numbers; "factorised" treats them as independent. "auto" is "joint" if these numbers
        take at most 64 MiB and the name of the algorithm is "gibbs" or ends in "-ssvi", else "factorised".
    weight_precision : {"auto", "active", "all"}, default="auto"
        Which weights the precision of the weights is learned from: only those of the features that a row
        uses ("active"), or all of them ("all"). "auto" is "all" for "mf-svi" and "mf-ssvi", which do not
        support "active", and "active" for the other algorithms.
    priors : Priors, optional
        Prior distributions of the model; `Priors()` by default.
    batch_size : int, optional
        Number of rows in a step; by default 1024, or all rows if there are fewer.
    max_epochs : float, optional
        Largest number of passes over the data. If none of `max_epochs`, `max_steps` and `max_time` is given,
        a fit makes 10 passes, but at least 100 steps if all features start as principal or rotated components
        and `revise` is off (200 from "varimax"), 500 steps if the data asked for the start "common" (see
        `init`), and 2000 steps otherwise. With sparse columns there are fewer steps from components. "gibbs"
        makes 100 sweeps.
    max_steps : int, optional
        Largest number of steps, or of sweeps over all rows for "gibbs". The fit ends at the first limit that
        is reached.
    max_time : float, optional
        Longest training time in seconds.
    step_delay : float, default=20.0
        Step t has the size (t + step_delay)^(-step_decay).
    step_decay : float, default=0.6
        The exponent in this formula, from 0 to 1.
    burn_in : int, default=3
        For "gibbs-ssvi" and "mimno-svi": how many sweeps of a row's Gibbs chain are discarded in a step.
    n_samples : int, default=3
        How many sweeps of the chain are kept after these.
    dropout : float, optional
        Share of a row's entries, at most 0.9, that its Gibbs chain does not see, for "gibbs-ssvi". These
        entries are chosen anew in every step; features and noise still learn from all entries. This keeps
        features from fitting single entries if each row uses a few of many features; if rows use most
        features, it makes the model worse. By default 0.1 with the start "common" if the data asked for it
        (see `init`), 0.02 with `prefer="balance"` or "readability", and 0 otherwise.
    n_sweeps : int, default=10
        Number of sweeps over the features in a step, for the variational algorithms (those whose names begin
        with "titsias" or "mf").
    init : {"auto", "principal", "rotated", "varimax", "common", "random", "data", "gibbs"}, default="auto"
        Values that the features start from:

        - "principal": principal components of the data. If there are more than two features for every three
          columns, this is the same as "common".
        - "rotated": principal components, rotated so that each row uses few of them.
        - "varimax": principal components, rotated so that each row has few large weights (varimax).
        - "common": the principal components with more than twice the average variance, and draws from the
          prior for all other features.
        - "random": draws from the prior.
        - "data": rows of the data.
        - "gibbs": the result of a short run of the Gibbs sampler on a sample of the rows.
        - "auto": "varimax" if `prefer` is "balance" or "readability", and "principal" otherwise. But if
          `n_components` is not given either and `prefer` is "prediction", `fit` tries whether rows use only
          some of the features: it takes "rotated", or "common" with more features than columns, if a short
          fit from there, on a sample of the rows, predicts hidden entries clearly better than factor
          analysis. It tries this only for "gibbs-ssvi" without factorised features and without `revise`, for
          at least 300 rows. The logger "bpfa" reports if one of the two is taken.
    standardize : bool, default=True
        Scale every column to mean 0 and variance 1, judged by its observed entries, before the fit, and undo
        this in all results. If it is off, the data should already be of this kind, because the model has no
        intercept.
    noise : {"auto", "columns", "shared"}, default="auto"
        "columns" gives every column a noise level of its own; "shared" gives all columns the same noise
        level, relative to their scales. The ratios between columns are estimated before the fit by factor
        analysis, and the fit learns the common level. "auto" is "columns".
    held_out : float or "auto", default="auto"
        Share of the entries, at most 0.9, that the fit does not see at all. Those in a sample of 1000 rows
        are scored after every 50 steps, or after every 5 sweeps of "gibbs". "auto" holds out a few entries of
        a large table and does not score them: they are there to judge the model by, after the fit. They are a
        hundredth of the observed entries and at most about 4000; with fewer than 100,000 observed entries,
        for patches of pictures and in `partial_fit` there are none. No row or column loses its only observed
        entries to "auto". 0 holds out nothing.
    patience : int, optional
        End the fit after this many held-out scores in a row without improvement, and keep the model with the
        best score instead of the last one ("gibbs" keeps the last one). It needs `held_out`.
    revise : bool, default=False
        Whenever held-out entries are scored, try to drop features that explain little, to merge features that
        are nearly equal, and to add features for badly explained rows; keep each change that raises the
        score. The number of features is then determined by the fit, up to `n_components` or, if that is not
        given, up to two for every three columns and at most 256. It needs `held_out`, and is not available
        for "gibbs".
    groups : bool or "auto", default="auto"
        Whether `impute`, `score` and the diagnostics predict a row by groups of rows like it, and by kinds of
        rows, as well. "auto" does so if hidden entries are clearly more probable then, which the logger
        "bpfa" reports: those that the fit has held out or, if these are too few, up to a tenth of the
        entries, which are hidden from further fits. Not available in `partial_fit`.
    group_rows : int, default=20000
        How many rows of the fit are kept, at random, to find like rows among. `save` leaves them out unless
        it is asked to include them.
    total_rows : int, optional
        For `partial_fit`: number of rows of the whole stream, which determines how much the data counts
        relative to the prior. By default the number of rows seen so far.
    sparse_output : bool, default=False
        Let `transform` return a sparse CSR array.
    device : str, default="auto"
        Where to compute: "cpu"; "cuda" for a GPU, or "cuda:1" and so on for a particular one; "auto" for a
        GPU if one can be used, and the CPU otherwise; "numpy" for the reference implementation, which is
        many times slower. If a device that is named cannot be used, an error explains why.
    n_jobs : int, optional
        Number of threads. -1 means all processors, and -2 all but one. By default all
        processors, unless OMP_NUM_THREADS or threadpoolctl says otherwise. Fits that run at the same time, as
        in a parallel parameter search, do not hold up one another; with 1 each they waste no time on sharing.
    random_state : int, RandomState or None, default=None
        Seed of the random numbers. The same seed gives exactly the same model, with any number of threads.
    verbose : int, default=0
        1 shows a progress bar of `fit` in terminals and notebooks.

    Attributes
    ----------
    components_ : array, shape (K, n_columns)
        Features in the units of the data: those in use first, and among them the one at the top that explains
        most of the variance of the standardised columns. The largest loading of each, in units of `scale_`,
        is positive.
    component_probabilities_ : array, shape (K,)
        Share of the rows that use each feature; nearly 1 with sparse columns.
    loading_probabilities_ : array, shape (K, n_columns)
        With sparse columns only: the probability that a column uses a feature.
    n_components_used_ : int
        Number of features in use: more than one row in a thousand, and more than one row, uses them, and
        they stand out from the noise. There may be more components than these, if they predict better.
    noise_std_ : array, shape (n_columns,)
        Standard deviation of the noise in the units of the data. It is 0 for a column that was constant in
        the fit, and NaN for a column that had no observed entry.
    mean_, scale_ : arrays, shape (n_columns,)
        Mean and standard deviation of every column, which `standardize` removes; 0 and 1 if it is off.
    noise_ratio_ : array, shape (n_columns,)
        Noise of every column relative to the others, in units of `scale_`; the mean of the squares is 1.
    groups_ : GroupMixture or None
        The sizes, priors and weights of the groups of like rows and of the kinds of rows; None if the
        features predict alone.
    history_ : dict of arrays
        One value for each step: step, epoch, seconds, step_size, noise_std (in units of `scale_`, root mean
        square over the columns), n_active (number of features in use), held_out_log_likelihood and
        held_out_mse (both NaN after steps that were not scored; with sparse columns they are in units of the
        noise of the columns). `pandas.DataFrame(model.history_)` is a table of them.
    n_steps_ : int
        Number of steps made.
    best_step_ : int
        The step whose model is kept: the last one or, with `patience`, the one with the best held-out score.
    stopped_by_ : str
        What ended the fit: "max_steps", "max_time", "patience", "callback", "interrupt" (Ctrl-C), "failure"
        (numbers that are not finite), or "partial_fit" (the end of a pass).
    n_rows_seen_ : int
        Number of rows that the model was fitted to, over all calls of `partial_fit`.
    posterior_ : GlobalPosterior or ChainPosterior
        Posterior of the model. It is in the units of the model (`scale_` times `noise_ratio_`), and its
        features are in an order of their own.
    settings_ : Settings
        The values that were used for the parameters, including those that were derived from the data.
    batch_effects_ : BatchEffects
        After a fit with `batch` only: `labels` of the batches, `offset` and `offset_std` of every batch and
        column, `between_std` of every column (how much batches differ) and noise `scale` of every batch.
        `batch_effects_.to_pandas()` is a table of them.
    n_features_in_ : int
        Number of columns of the data.
    feature_names_in_ : array of str
        Names of the columns, if they have names.

    See Also
    --------
    bpfa.BPFAImputer : A transformer that fills in missing entries.
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.inpaint : Fill in missing pixels.
    bpfa.train : The training loop.

    References
    ----------
    .. [1] A. Shah, D. A. Knowles and Z. Ghahramani, "An Empirical Study of Stochastic Variational Algorithms
       for the Beta Bernoulli Process", ICML (2015).
    .. [2] J. Paisley and L. Carin, "Nonparametric Factor Analysis with Beta Process Priors", ICML (2009).

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

    def __init__(
        self,
        n_components: int | None = DEFAULTS.n_components,
        *,
        algorithm: str = DEFAULTS.algorithm,
        sparse: str = DEFAULTS.sparse,
        prefer: str = DEFAULTS.prefer,
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
        held_out: float | str = DEFAULTS.held_out,
        patience: int | None = DEFAULTS.patience,
        revise: bool = DEFAULTS.revise,
        groups: bool | str = DEFAULTS.groups,
        group_rows: int = DEFAULTS.group_rows,
        total_rows: int | None = DEFAULTS.total_rows,
        sparse_output: bool = DEFAULTS.sparse_output,
        device: str = DEFAULTS.device,
        n_jobs: int | None = DEFAULTS.n_jobs,
        random_state: Any = DEFAULTS.random_state,
        verbose: int = DEFAULTS.verbose,
    ) -> None:
        self.n_components, self.algorithm = n_components, algorithm
        self.sparse, self.prefer = sparse, prefer
        self.features, self.weight_precision = features, weight_precision
        self.priors, self.batch_size = priors, batch_size
        self.max_epochs, self.max_steps, self.max_time = max_epochs, max_steps, max_time
        self.step_delay, self.step_decay = step_delay, step_decay
        self.burn_in, self.n_samples = burn_in, n_samples
        self.dropout, self.n_sweeps = dropout, n_sweeps
        self.init = init
        self.standardize, self.noise = standardize, noise
        self.held_out, self.patience, self.revise = held_out, patience, revise
        self.groups, self.group_rows = groups, group_rows
        self.total_rows = total_rows
        self.sparse_output = sparse_output
        self.device, self.n_jobs = device, n_jobs
        self.random_state, self.verbose = random_state, verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        missing: Any = None,
        batch: Any = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        resume: bool | str | os.PathLike[str] = False,
        client: Any = None,
    ) -> Self:
        """Learn the features, which rows use them, and the noise.

        If the fit is interrupted by Ctrl-C, the model keeps what it has learned so far, saves its checkpoint,
        and raises the KeyboardInterrupt. If the fit fails for another reason, an earlier fit of the same
        object is left unchanged, except where numbers are not finite, or rows on other machines are lost:
        then the last good step is kept.

        Parameters
        ----------
        X : array-like, frame, AnnData, Rows, or Dask array or dataframe, shape (n_rows, n_columns)
            NaN marks a missing entry. For files and sparse matrices see `open_rows`.
        y : ignored
        missing : boolean array-like, optional
            True at entries that are missing, in addition to those that are NaN.
        batch : sequence, or str, optional
            The batch of every row: labels, such as the day or the plate of a measurement, or the name of a
            column of obs if X is AnnData. Every batch gets an offset in every column and a noise scale, which
            are removed before rows are compared (see `batch_effects_`). Both are shrunk towards those of all
            batches by as much as the number of rows of a batch demands.
        callbacks : sequence of callables
            Each is called with the `Progress` and the `History` after every step. If one of them returns a
            true value, the fit ends.
        checkpoint : path or Checkpoint, optional
            File to which the fit is saved while it runs: every five minutes, unless a `Checkpoint` sets
            another interval. A file that is not a model saved by bpfa is never replaced. If the file holds a
            fit that this one does not continue, it is replaced, after a warning.
        resume : bool or path
            Continue a saved fit of the same data with the same parameters; only the limits may be extended.
            The result is exactly that of a fit that was never stopped. True continues from the file of the
            checkpoint if it exists, and starts a new fit otherwise.
        client : distributed.Client, optional
            Whose workers hold the rows of a Dask collection, or read the files whose paths X lists; by
            default the current one. Without any, this process reads it, a part at a time (docs/cluster.md).

        Returns
        -------
        self

        See Also
        --------
        bpfa.BPFA.partial_fit : Learn from one part after the other.
        bpfa.BPFA.transform : The weights of the features in every row.
        bpfa.BPFA.impute : Fill in missing entries.
        bpfa.open_rows : Open a file, a frame or several of them.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> BPFA(n_components=4, max_steps=50, random_state=0).fit(X).components_.shape
        (4, 6)
        """
        parameters = check_parameters(self.get_params())
        checkpoint, n_jobs = as_checkpoint(checkpoint), check_jobs(parameters.n_jobs)
        table, resumed = new_table(self, X, missing, batch, client, n_jobs), saved_fit(resume, checkpoint)
        check_remote(table.rows, parameters)
        if checkpoint is not None:
            check_checkpoint(checkpoint, table.rows)
            warn_of_replacement(checkpoint, None if resumed is None else resumed.path)
        check_groups(table.rows, parameters)
        with limited_threads(n_jobs), one_blas_thread(), released(table.rows):
            seen = look_at(table, parameters, resumed)
            warn_of_empty_columns(seen.visible.scale, table.names)
            found = Findings(seen, parameters, n_jobs)
            plan = PLANS[chosen_side(found, resumed)](found, resumed)
            save = None if checkpoint is None else partial(write_outcome, checkpoint.path, self.get_params())
            outcome = run(
                plan, callbacks=callbacks, verbose=parameters.verbose, checkpoint=checkpoint, save=save
            )
            outcome = with_like_rows(outcome, seen, parameters, n_jobs)
        return self._publish(outcome)

    def _publish(self, outcome: Outcome) -> Self:
        """Set the fitted attributes, then raise the exception that ended the run early, if any."""
        publish(self, replace(outcome, error=None))
        if outcome.error is not None:
            raise outcome.error
        return self
