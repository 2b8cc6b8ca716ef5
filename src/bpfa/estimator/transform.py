"""What a fitted BPFA is used for: weights of rows, missing entries, scores, new rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from bpfa._support.checks import Array, check_integer
from bpfa._support.philox import Stream
from bpfa.backends.registry import array_like, check_device
from bpfa.data import AnnDataRows, Batch, HeldOutRows, StandardisedRows, sequential
from bpfa.data.held_out import MaskedRows
from bpfa.estimator.inputs import like_input, rows_like_those_of_the_fit
from bpfa.inference.algorithms import ALGORITHMS, Algorithm
from bpfa.inference.settings import Settings
from bpfa.model.posterior import Posterior
from bpfa.prediction.predictions import content_ids, predict, row_weights, sample_rows
from bpfa.prediction.scores import HeldOutScore, score_rows

__all__ = ["TransformMixin"]

# Rows predicted at a time.
BLOCK_ROWS = 4096
# Entries that `score` hides, and the seed that says which.
SCORED_SHARE, SCORE_SEED = 0.1, 0
# A chain that is to tell of a single row runs longer than one whose sums are averaged over a batch.
ROW_BURN_IN, ROW_SAMPLES = 10, 20


class TransformMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """The methods of BPFA that need a fit and leave it as it is."""

    n_jobs: int | None
    device: str
    sparse_output: bool
    settings_: Settings
    posterior_: Posterior
    components_: Array
    component_probabilities_: Array
    mean_: Array
    scale_: Array
    noise_ratio_: Array
    noise_std_: Array
    n_steps_: int
    _component_order: NDArray[np.int64]

    def transform(self, X: Any) -> Any:
        """Return the weights of the features in every row, E[z w], the most used feature first.

        The features are taken at their posterior mean. A row's weights are a function of the row alone.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows, shape (n_rows, n_columns)

        Returns
        -------
        array, or CSR array with `sparse_output`, shape (n_rows, K)
            Zero where a feature is in the row with a probability below 1/1000.
        """
        check_is_fitted(self)
        rows = self._standardised(X)
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
        blocks = [
            row_weights(self.posterior_, batch, self._row_algorithm(), self._stream)[:, self._component_order]
            for batch in sequential(rows, block_rows=BLOCK_ROWS)
        ]
        if self.sparse_output:
            return sparse.vstack([sparse.csr_array(block) for block in blocks], format="csr", dtype=dtype)
        weights = np.concatenate(blocks).astype(dtype, copy=False)
        return array_like(weights, X)

    def inverse_transform(self, L: Any) -> Array:
        """Return the rows that weights stand for, without noise, in the units of the data.

        Parameters
        ----------
        L : array-like or sparse, shape (n_rows, K)
        """
        check_is_fitted(self)
        K = len(self.components_)
        weights: Any = L if sparse.issparse(L) else check_array(L)
        if weights.ndim != 2 or weights.shape[1] != K:
            raise ValueError(f"L: shape {weights.shape}; expected one column for each of {K} features")
        restored: Array = weights @ self.components_ + self.mean_
        return restored

    def impute(self, X: Any, *, return_std: bool = False, n_draws: int = 50) -> Any:
        """Fill in what is missing, by the mean of the predictive distribution.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        return_std : bool
            Also return how uncertain each filled entry is: the standard deviation of the predictive
            distribution, noise included; 0 where an entry is observed.
        n_draws : int
            Draws from the posterior.

        Returns
        -------
        array or frame of the kind and shape of X, or two of them
            Observed entries are returned as they are.
        """
        check_is_fitted(self)
        rows = rows_like_those_of_the_fit(self, X)
        standardised, algorithm, means, stds = self._standardised(rows), self._algorithm(), [], []
        for batch in sequential(rows, block_rows=BLOCK_ROWS):
            filled, spread = batch.values.astype(np.float64), np.zeros(batch.values.shape)
            if len(some := np.flatnonzero(~batch.observed.all(axis=1))):
                seen = standardised.mapped(Batch(batch.values[some], batch.observed[some], batch.ids[some]))
                mean, std = predict(self.posterior_, seen, algorithm, n_draws=n_draws, stream=self._stream)
                missing = ~seen.observed
                filled[some] = np.where(missing, mean * self._unit + self.mean_, filled[some])
                spread[some] = np.where(missing, std * self._unit, 0.0)
            means.append(filled)
            stds.append(spread)
        filled = like_input(np.concatenate(means), X)
        return (filled, like_input(np.concatenate(stds), X)) if return_std else filled

    def score(self, X: Any, y: Any = None) -> float:
        """Predictive log-likelihood per entry, of a tenth of the entries of X, given the rest.

        The entries are held out at random with a fixed seed, the same for every model. They are scored in the
        units of the data, so that models with and without `standardize` can be compared.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        y : ignored
        """
        return self.held_out_score(X).log_likelihood

    def held_out_score(self, X: Any, held_out: Any = None, *, n_draws: int = 20) -> HeldOutScore:
        """Score predictions of held-out entries: log-likelihood, in the units of the data, and squared error.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        held_out : boolean array-like, optional
            True where an entry is to be held out and scored; a tenth of them at random, the same for every
            model, by default.
        n_draws : int

        Returns
        -------
        HeldOutScore
            Its squared error is in units of the columns' scales.
        """
        check_is_fitted(self)
        scores, log_scale = [], np.log(self.scale_)
        for batch, truth, mask in self._held_out_blocks(X, held_out, BLOCK_ROWS):
            keyed = content_ids(batch)
            score = score_rows(
                self.posterior_,
                keyed,
                truth,
                mask,
                self._algorithm(),
                n_draws=n_draws,
                stream=self._stream,
                integrated=True,
                units=self.noise_ratio_,
            )
            units = (mask @ log_scale).sum() / max(score.n_entries, 1)
            scores.append(score._replace(log_likelihood=score.log_likelihood - units))
        return HeldOutScore.over(scores)

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Array:
        """Draw new rows from the posterior predictive distribution, noise included, in the units of the data.

        Parameters
        ----------
        n_samples : int
        random_state : int, RandomState or None
        """
        check_is_fitted(self)
        n_samples = check_integer("n_samples", n_samples, low=1)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
        return sample_rows(self.posterior_, n_samples, rng) * self._unit + self.mean_

    def annotate(
        self, adata: Any, *, layer: str | None = None, absent: str = "zero", imputed: bool = False
    ) -> None:
        """Write what the model says of the observations of an AnnData object into it.

        New observations are brought to the mean and scale of the fit, whatever their own.

        Parameters
        ----------
        adata : anndata.AnnData
            Gets `obsm["X_bpfa"]` (weights, as `transform`), `varm["bpfa_components"]` (features, variables x
            K), `uns["bpfa"]` (share of the observations that use each feature, noise of each variable, mean
            and scale of each variable, algorithm, steps) and, with `imputed`, `layers["bpfa_imputed"]`.
        layer : str, optional
            The layer that the model was fitted to; X by default.
        absent : {"zero", "missing"}
            What an entry of a sparse matrix that is not stored means, as for the fit.
        imputed : bool
            Also fill in missing entries.
        """
        check_is_fitted(self)
        rows = AnnDataRows(adata, layer=layer, absent=absent)
        adata.obsm["X_bpfa"] = self.transform(rows)
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
            adata.layers["bpfa_imputed"] = self.impute(rows)

    def _held_out_blocks(
        self, X: Any, held_out: Any, block_rows: int
    ) -> Iterator[tuple[Batch, Array, NDArray[np.bool_]]]:
        """Yield some rows at a time in the model's units: as it sees them, as they are, what is held out."""
        rows = self._standardised(X)
        source: HeldOutRows | MaskedRows
        if held_out is None:
            source = HeldOutRows(rows, SCORED_SHARE, Stream.from_seed(SCORE_SEED))
        else:
            source = MaskedRows(rows, held_out)
        n_hidden = 0
        for first in range(0, rows.n_rows, block_rows):
            batch, truth, mask = source.take_held_out(np.arange(first, min(first + block_rows, rows.n_rows)))
            n_hidden += int(mask.sum())
            yield batch, truth, mask
        if not n_hidden:
            name, way_out = (
                ("X", "more of them, or a mask held_out=...") if held_out is None else ("held_out", "one")
            )
            raise ValueError(f"{name}: no entry is held out among {rows.n_rows} rows; expected {way_out}")

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    @property
    def _unit(self) -> Array:
        """What is 1 in the model, in the units of the data."""
        return self.scale_ * self.noise_ratio_

    @property
    def _stream(self) -> Stream:
        return self.settings_.stream.child("use")

    def _algorithm(self) -> Algorithm:
        return self._settings().make_algorithm(self.n_jobs)

    def _settings(self) -> Settings:
        """Return the settings of the fit on the device of today, which need not be that of the fit."""
        return replace(self.settings_, device=check_device(self.device))

    def _row_algorithm(self) -> Algorithm:
        """Return the algorithm with longer chains, for what is told of single rows."""
        if ALGORITHMS[self.settings_.algorithm].method != "Gibbs":
            return self._algorithm()
        longer = {"burn_in": ROW_BURN_IN, "n_samples": ROW_SAMPLES}
        return replace(self._settings(), options=longer).make_algorithm(self.n_jobs)

    def _standardised(self, X: Any) -> StandardisedRows:
        return StandardisedRows(rows_like_those_of_the_fit(self, X), self.mean_, self._unit)
