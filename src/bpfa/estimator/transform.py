"""The methods of BPFA that turn rows into weights of features, weights into rows, and draw new rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from bpfa._support.checks import Array, check_integer
from bpfa._support.philox import Stream
from bpfa.backends.registry import array_like, check_device
from bpfa.cluster.collections import is_collection
from bpfa.data import Batch, StandardisedRows, sequential
from bpfa.estimator.batching import BatchUse
from bpfa.estimator.inputs import rows_like_those_of_the_fit
from bpfa.estimator.lazy import transformed_lazily
from bpfa.estimator.remote import refuse_batches
from bpfa.fitting.run import Outcome
from bpfa.inference.algorithms import ALGORITHMS, Algorithm
from bpfa.inference.settings import Settings
from bpfa.model.posterior import Posterior
from bpfa.prediction.predictions import row_weights, sample_rows
from bpfa.selection.preferences import PREFERENCES

__all__ = ["TransformMixin"]

# Rows that are predicted at a time.
BLOCK_ROWS = 4096
# Sweeps of the chain of a row whose own weights are of interest. Shorter chains suffice in a fit, where only
# sums over a batch of rows are needed.
ROW_BURN_IN, ROW_SAMPLES = 10, 20


class TransformMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of `BPFA` that need a fitted model and do not change it."""

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
    n_components_used_: int
    n_steps_: int
    _component_order: NDArray[np.int64]
    _component_signs: Array
    _outcome: Outcome

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit_transform(self, X: Any, y: Any = None, *, missing: Any = None, **fit_arguments: Any) -> Any:
        """Fit the model, and return the weights of the features in the rows that it was fitted to.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows, shape (n_rows, n_columns)
        y : ignored
        missing : boolean array-like, optional
            True at entries that are missing, in addition to those that are NaN.
        **fit_arguments
            Further arguments of `fit`.

        Returns
        -------
        array, or CSR array with `sparse_output`, shape (n_rows, K)

        See Also
        --------
        bpfa.BPFA.fit : Learn from a whole table.
        bpfa.BPFA.transform : The weights of the features in every row.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> BPFA(n_components=4, max_steps=50, random_state=0).fit_transform(X).shape
        (500, 4)
        """
        fitted = self.fit(X, y, missing=missing, **fit_arguments)
        return fitted.transform(X, missing=missing, batch=fit_arguments.get("batch"))

    def transform(self, X: Any, *, missing: Any = None, batch: Any = None) -> Any:
        """Return the weights of the features in every row, E[z w], in the order of `components_`.

        The features are fixed at their posterior means. The weights of a row depend on that row alone.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows, shape (n_rows, n_columns)
        missing : boolean array-like, optional
            True at entries that are missing, in addition to those that are NaN.
        batch : sequence, or str, optional
            The batch of every row, as in `fit`. Rows of a batch that was not in the fit, and all rows without
            it, are treated as rows of the population of batches.

        Returns
        -------
        array, or CSR array with `sparse_output`, shape (n_rows, K)
            A weight is zero if the row uses the feature with a probability below 1/1000, or below 1/2 if the
            model was fitted with `prefer="balance"` or "readability". For a Dask collection the result is a
            lazy one with the same chunks.

        See Also
        --------
        bpfa.BPFA.inverse_transform : From weights back to rows.
        bpfa.BPFA.impute : Fill in missing entries.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=4, max_steps=50, random_state=0).fit(X)
        >>> model.transform(X).shape
        (500, 4)
        """
        check_is_fitted(self)
        if is_collection(X):
            refuse_batches(batch)
            return transformed_lazily(self, X, missing)
        source = rows_like_those_of_the_fit(self, X, missing)
        batches = BatchUse.of(self._outcome.batches, X, batch, source.n_rows)
        rows = StandardisedRows(batches.rows(source), self.mean_, self._unit)
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
        blocks: list[NDArray[np.floating[Any]]] = []
        for block in sequential(rows, block_rows=BLOCK_ROWS):
            weights = self._row_weights(block) * batches.scales(block.ids)[:, None]
            with np.errstate(over="ignore"):
                blocks.append(weights.astype(dtype, copy=False))
            overflowing = ~np.isfinite(blocks[-1]).all(axis=1)
            if overflowing.any():
                raise ValueError(
                    f"X: the weights of row {block.ids[overflowing][0]} overflow; expected entries on the "
                    "scale of the data of the fit"
                )
        if self.sparse_output:
            # SciPy 1.11 stacks arrays to a matrix.
            return sparse.csr_array(
                sparse.vstack([sparse.csr_array(block) for block in blocks], format="csr")
            )
        return array_like(np.concatenate(blocks), X)

    def _row_weights(self, batch: Batch) -> Array:
        """Return the weights of the components in rows that are in the units of the model."""
        least = PREFERENCES[self.settings_.prefer].least_probability
        weights = row_weights(
            self.posterior_, batch, self._row_algorithm(), self._stream, least_probability=least
        )
        # The sum turns -0 into 0.
        return weights[:, self._component_order] * self._component_signs + 0.0

    def inverse_transform(self, L: Any, *, batch: Any = None) -> Array:
        """Return the rows that belong to given weights, without noise, in the units of the data.

        Parameters
        ----------
        L : array-like or sparse, shape (n_rows, K)
            Weights, as `transform` returns them.
        batch : sequence, optional
            The batch that shows each row. By default rows are shown without offsets of batches.

        Returns
        -------
        array, shape (n_rows, n_columns)

        See Also
        --------
        bpfa.BPFA.transform : The weights of the features in every row.
        bpfa.BPFA.sample : Draw new rows.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=4, max_steps=50, random_state=0).fit(X)
        >>> model.inverse_transform(model.transform(X)).shape
        (500, 6)
        """
        check_is_fitted(self)
        K = len(self.components_)
        weights: Any = L if sparse.issparse(L) else check_array(L, dtype=np.float64)
        if weights.ndim != 2 or weights.shape[1] != K:
            raise ValueError(f"L: shape {weights.shape}; expected one column for each of {K} features")
        restored: Array = weights @ self.components_ + self.mean_
        batches = BatchUse.of(self._outcome.batches, None, batch, len(restored))
        return restored + batches.offsets()

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Array:
        """Draw new rows from the posterior predictive distribution, noise included, in the units of the data.

        Parameters
        ----------
        n_samples : int
            Number of rows.
        random_state : int, RandomState or None

        Returns
        -------
        array, shape (n_samples, n_columns)
            Columns that were constant in the fit have their constant, and columns that had no observed entry
            are NaN.

        See Also
        --------
        bpfa.BPFA.inverse_transform : From weights back to rows.
        bpfa.draw_data : Data drawn from the model.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=4, max_steps=50, random_state=0).fit(X)
        >>> model.sample(3, random_state=0).shape
        (3, 6)
        """
        check_is_fitted(self)
        n_samples = check_integer("n_samples", n_samples, low=1)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
        drawn = sample_rows(self.posterior_, n_samples, rng)
        return self._in_units_of_data(drawn, np.zeros(drawn.shape))[0]

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    @property
    def _unit(self) -> Array:
        """The amount, in the units of the data, that is 1 in the model."""
        return self.scale_ * self.noise_ratio_

    def _in_units_of_data(self, mean: Array, std: Array) -> tuple[Array, Array]:
        """Return predictions and their deviations in the units of the data."""
        return self._outcome.scale.corrected(mean * self._unit + self.mean_, std * self._unit)

    @property
    def _stream(self) -> Stream:
        return self.settings_.stream.child("use")

    def _algorithm(self) -> Algorithm:
        return self._settings().make_algorithm(self.n_jobs)

    def _settings(self) -> Settings:
        """Return the settings of the fit with the present device, which need not be the device of the fit."""
        return replace(self.settings_, device=check_device(self.device))

    def _row_algorithm(self) -> Algorithm:
        """Return the algorithm with longer chains, for results about single rows."""
        if ALGORITHMS[self.settings_.algorithm].method != "Gibbs":
            return self._algorithm()
        longer = {"burn_in": ROW_BURN_IN, "n_samples": ROW_SAMPLES}
        return replace(self._settings(), options=longer).make_algorithm(self.n_jobs)

    def _standardised(self, X: Any, missing: Any = None, batch: Any = None) -> StandardisedRows:
        rows = rows_like_those_of_the_fit(self, X, missing)
        batches = BatchUse.of(self._outcome.batches, X, batch, rows.n_rows)
        return StandardisedRows(batches.rows(rows), self.mean_, self._unit)
