"""The methods of BPFA that predict: missing entries, and scores of entries that are hidden."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bpfa._support.threads import check_jobs
from bpfa.backends.registry import backend_of, check_device
from bpfa.cluster.collections import is_collection
from bpfa.data import AnnDataRows, Batch, StandardisedRows, sequential
from bpfa.estimator.batching import BatchUse
from bpfa.estimator.grouping import warn_of_rows_not_saved
from bpfa.estimator.hidden_entries import HiddenEntries, warn_of_seen_entries
from bpfa.estimator.inputs import like_input, rows_like_those_of_the_fit
from bpfa.estimator.lazy import imputed_lazily, scored_lazily
from bpfa.estimator.remote import refuse_batches
from bpfa.estimator.transform import BLOCK_ROWS, TransformMixin
from bpfa.prediction.draws import posterior_draws
from bpfa.prediction.groups import (
    GroupMixture,
    GroupPredictor,
    MixturePredictor,
    model_features,
    row_covariance,
)
from bpfa.prediction.missing import MissingPredictor
from bpfa.prediction.predictions import keyed_by_content
from bpfa.prediction.scores import HeldOutScore, row_scores

__all__ = ["PredictionMixin"]

# Rows that are filled in at a time, and the entries that they may have if they are more than BLOCK_ROWS. In
# a larger block more rows share the pattern of their missing entries.
IMPUTED_ROWS, IMPUTED_ENTRIES = 16_384, 2**19
# Draws from the posterior behind a score.
SCORING_DRAWS = 20


class PredictionMixin(TransformMixin):
    """Methods of `BPFA` that predict entries, and need a fitted model that they do not change."""

    def impute(
        self,
        X: Any,
        *,
        missing: Any = None,
        batch: Any = None,
        to_batch: Any = None,
        return_std: bool = False,
        n_draws: int = 50,
    ) -> Any:
        """Fill in missing entries by the mean of their predictive distribution.

        If the fit has chosen groups of like rows (see `groups`), this is the distribution of the mixture.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        missing : boolean array-like, optional
            True at entries that are missing, in addition to those that are NaN. Their values in X are not
            used, and are replaced in the result.
        batch : sequence, or str, optional
            The batch of every row, as in `fit`. Rows of a batch that was not in the fit, and all rows without
            it, are treated as rows of the population of batches. Their
            deviations then include how much batches differ.
        to_batch : str or int, optional
            Label of a batch of the fit: all rows are returned as this batch would show them. Observed entries
            exchange the offset of their own batch for that of the other one, and predictions have its offset
            and its noise.
        return_std : bool
            Also return how uncertain each entry is: the standard deviation of its predictive distribution,
            noise included, or 0 if the entry is observed.
        n_draws : int
            Number of draws from the posterior. A row may stop after 16 draws or more if further ones would
            hardly change its predictions: once their squared standard errors are at most 5 % / `n_draws` of
            their variances. Models of tables with more columns than rows in which every row uses every
            feature, as with `sparse="columns"`, need no draws.

        Returns
        -------
        array or frame of the same kind and shape as X, or two of them
            Observed entries are unchanged. In a column that was constant in the fit, missing entries get the
            constant, with deviation 0. In a column that had no observed entry in the fit, nothing can be
            predicted: missing entries and their deviations are NaN. Panels (see `open_rows`) become a frame
            of pandas with all columns of the fit. Dask collections stay lazy, with the same chunks.

        See Also
        --------
        bpfa.BPFA.transform : The weights of the features in every row.
        bpfa.BPFA.calibration : Whether intervals contain as much as they promise.
        bpfa.BPFAImputer : A transformer that fills in missing entries.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> X[0, 0] = np.nan
        >>> model = BPFA(n_components=4, max_steps=50, random_state=0).fit(X)
        >>> filled, std = model.impute(X, return_std=True)
        >>> bool(np.isfinite(filled[0, 0])), bool(std[0, 0] > 0), float(std[0, 1])
        (True, True, 0.0)
        """
        check_is_fitted(self)
        if is_collection(X):
            refuse_batches(batch, to_batch)
            return imputed_lazily(self, X, missing, return_std=return_std, n_draws=n_draws)
        rows = rows_like_those_of_the_fit(self, X, missing)
        batches = BatchUse.of(self._outcome.batches, X, batch, rows.n_rows)
        shown_by = batches.moved_to(to_batch)
        standardised, means, stds = StandardisedRows(rows, self.mean_, self._unit), [], []
        predictor = self._missing_predictor(n_draws)
        block_rows = max(BLOCK_ROWS, min(IMPUTED_ROWS, IMPUTED_ENTRIES // rows.n_columns))
        for block in sequential(rows, block_rows=block_rows):
            codes = shown_by[block.ids]
            filled = batches.moved(block.values.astype(np.float64), block.ids, codes)
            spread = np.zeros(filled.shape)
            if len(some := np.flatnonzero(~block.observed.all(axis=1))):
                seen = batches.removed(Batch(block.values[some], block.observed[some], block.ids[some]))
                found = predictor.predict(standardised.mapped(seen))
                mean, std = batches.shown(*self._in_units_of_data(*found), codes[some])
                filled[some] = np.where(seen.observed, filled[some], mean)
                spread[some] = np.where(seen.observed, 0.0, std)
            means.append(filled)
            stds.append(spread)
        filled = like_input(np.concatenate(means), X, rows)
        return (filled, like_input(np.concatenate(stds), X, rows)) if return_std else filled

    def score(self, X: Any, y: Any = None, *, batch: Any = None) -> Any:
        """Return the predictive log-likelihood per entry of some entries of X, given the other entries.

        For new rows these are a tenth of the entries, chosen at random with a fixed seed, so that they are
        the same for every model. They are scored in the units of the data, so that models with and without
        `standardize` can be compared.

        For the data of the fit they are the entries that the fit has held out. If there are none, or if X has
        other rows of the fit, a tenth of the entries is scored although the model has learned from them, and
        there is a `SeenInFitWarning`, because the score is then too good.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        y : ignored
        batch : sequence, or str, optional
            The batch of every row, as in `fit`. Rows of a batch that was not in the fit, and all rows without
            it, are treated as rows of the population of batches.

        Returns
        -------
        float
            The higher the better. For a Dask collection it is a Dask array without axes, to be computed.

        See Also
        --------
        bpfa.BPFA.held_out_score : The same for chosen entries.
        bpfa.BPFA.variance_explained : How well entries are predicted.

        References
        ----------
        .. [1] T. Gneiting and A. E. Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation",
           Journal of the American Statistical Association 102 (2007).

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=4, max_steps=50, random_state=0).fit(X)
        >>> new = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=1).y
        >>> model.score(new) == model.held_out_score(new).log_likelihood
        True
        """
        if is_collection(X):
            check_is_fitted(self)
            refuse_batches(batch)
            return scored_lazily(self, X, SCORING_DRAWS)
        score, label = self._score_and_label(X, batch=batch)
        warn_of_seen_entries(label)
        return score.log_likelihood

    def held_out_score(
        self, X: Any, held_out: Any = None, *, batch: Any = None, n_draws: int = SCORING_DRAWS
    ) -> HeldOutScore:
        """Score the predictions of held-out entries by log-likelihood and by squared error.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        held_out : boolean array-like, optional
            True at the entries to hold out and to score. By default they are those of `score`, which also
            says when there is a `SeenInFitWarning`.
        batch : sequence, or str, optional
            The batch of every row, as in `fit`. Rows of a batch that was not in the fit, and all rows without
            it, are treated as rows of the population of batches.
        n_draws : int
            Number of draws from the posterior.

        Returns
        -------
        HeldOutScore
            The log-likelihood per entry is in the units of the data, the squared error in units of `scale_`.

        See Also
        --------
        bpfa.BPFA.score : Log-likelihood of hidden entries.
        bpfa.held_out_score : How well a posterior predicts held-out entries.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=4, max_steps=50, random_state=0).fit(X)
        >>> new = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=1).y
        >>> held_out = np.zeros(new.shape, dtype=bool)
        >>> held_out[:, 0] = True
        >>> model.held_out_score(new, held_out).n_entries
        500
        """
        score, label = self._score_and_label(X, held_out, n_draws, batch)
        warn_of_seen_entries(label)
        return score

    def _score_and_label(
        self, X: Any, held_out: Any = None, n_draws: int = SCORING_DRAWS, batch: Any = None
    ) -> tuple[HeldOutScore, str]:
        """Return a score, and what the scored entries are to the fit."""
        check_is_fitted(self)
        hidden = self._hidden_entries(X, held_out, batch)
        return HeldOutScore.over(self._scores_of(hidden, n_draws)), hidden.label

    def _scores_of(self, hidden: HiddenEntries, n_draws: int) -> list[HeldOutScore]:
        """Return the scores of blocks of rows."""
        scores, log_scale = [], np.log(self.scale_)
        algorithm, groups = self._algorithm(), self._group_predictor()
        for block, truth, mask in hidden.blocks(BLOCK_ROWS, self._unit):
            keyed, integrated = keyed_by_content(block), algorithm.draws_z_given_globals
            draws = posterior_draws(self.posterior_, keyed, algorithm, n_draws=n_draws, stream=self._stream)
            rows = row_scores(draws, keyed, truth, mask, n_draws=n_draws, integrated=integrated)
            if groups is not None:
                rows = groups.scores(rows, block, truth, mask)
            score = rows.summed(truth, mask, self.noise_ratio_)
            units = (mask @ log_scale).sum() + mask.sum(axis=1) @ np.log(hidden.scales(block.ids))
            units = units / max(score.n_entries, 1)
            scores.append(score._replace(log_likelihood=score.log_likelihood - units))
        return scores

    def annotate(
        self,
        adata: Any,
        *,
        layer: str | None = None,
        absent: str = "zero",
        imputed: bool = False,
        batch: Any = None,
    ) -> None:
        """Write the weights and features of the model into an AnnData object.

        The observations are scaled by the mean and scale of the fit, even if their own differ.

        Parameters
        ----------
        adata : anndata.AnnData
            These parts of it are set: `obsm["X_bpfa"]` (weights, as returned by `transform`),
            `varm["bpfa_components"]` (features, variables x K), `uns["bpfa"]` (share of the observations that
            use each feature; noise, mean and scale of each variable; algorithm; number of steps) and, with
            `imputed`, `layers["bpfa_imputed"]`.
        layer : str, optional
            The layer that the model was fitted to; X by default.
        absent : {"zero", "missing"}
            What the entries mean that a sparse matrix does not store. Use the same value as for the fit.
        imputed : bool
            Also write the data with its missing entries filled in.
        batch : sequence, or str, optional
            The batch of every observation, or the name of a column of obs, as in `fit`.

        See Also
        --------
        bpfa.BPFA.transform : The weights of the features in every row.
        bpfa.BPFA.impute : Fill in missing entries.

        References
        ----------
        .. [1] I. Virshup, S. Rybakov, F. J. Theis, P. Angerer and F. A. Wolf, "anndata: Access and Store
           Annotated Data Matrices", Journal of Open Source Software 9 (2024).

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=4, max_steps=50, random_state=0).fit(X)
        >>> from anndata import AnnData
        >>> adata = AnnData(X)
        >>> model.annotate(adata)
        >>> adata.obsm["X_bpfa"].shape, adata.varm["bpfa_components"].shape
        ((500, 4), (6, 4))
        """
        check_is_fitted(self)
        rows = AnnDataRows(adata, layer=layer, absent=absent)
        adata.obsm["X_bpfa"] = self.transform(rows, batch=batch)
        adata.varm["bpfa_components"] = self.components_.T
        adata.uns["bpfa"] = {
            "component_probabilities": self.component_probabilities_,
            "noise_std": self.noise_std_,
            "mean": self.mean_,
            "scale": self.scale_,
            "algorithm": self.settings_.algorithm,
            "n_steps": self.n_steps_,
        }
        if imputed:
            adata.layers["bpfa_imputed"] = self.impute(rows, batch=batch)

    def _hidden_entries(self, X: Any, held_out: Any, batch: Any = None) -> HiddenEntries:
        """Return the entries of X by which the model is judged."""
        rows = rows_like_those_of_the_fit(self, X)
        batches = BatchUse.of(self._outcome.batches, X, batch, rows.n_rows)
        return HiddenEntries(batches.rows(rows), self._outcome, held_out)

    def _missing_predictor(self, n_draws: int) -> MixturePredictor:
        """Return what predicts missing entries: the model of the whole table, and groups if there are any."""
        whole = MissingPredictor(self.posterior_, self._algorithm(), n_draws=n_draws, stream=self._stream)
        return MixturePredictor(whole, self._group_predictor())

    def _group_predictor(self) -> GroupPredictor | None:
        """Return what predicts rows by rows like them, if the fit has chosen to do so and has kept rows."""
        like_rows = self._outcome.like_rows
        if like_rows is None:
            return None
        mixture: GroupMixture | None = like_rows.mixture
        if like_rows.kept is None and len(like_rows.mixture.sizes):
            warn_of_rows_not_saved()
            mixture = like_rows.mixture.without_rows()
        if mixture is None:
            return None
        device = check_device(self.device)
        return GroupPredictor(
            mixture,
            like_rows.kept,
            row_covariance(self.posterior_),
            backend_of(device).row_groups.on(device),
            check_jobs(self.n_jobs) or 0,
            like_rows.kinds,
            model_features(self.posterior_),
        )
