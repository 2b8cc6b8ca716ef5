"""BPFAImputer, the scikit-learn transformer that fills in missing entries."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bpfa.backends.registry import array_like
from bpfa.estimator.batching import column_of_obs
from bpfa.estimator.estimator import BPFA
from bpfa.estimator.inputs import rows_like_those_of_the_fit

__all__ = ["BPFAImputer"]


class BPFAImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill in missing entries in a scikit-learn pipeline, by the mean of their predictive distribution.

    Its `transform` returns what `BPFA.impute` predicts. `BPFA` itself returns the weights of the features.

    Parameters
    ----------
    n_components, algorithm, ... :
        The parameters are those of `BPFA`, with the same defaults.

    Attributes
    ----------
    model_ : BPFA
        The fitted model. `model_.impute(X, return_std=True)` also returns how uncertain each entry is.
    n_features_in_ : int
        Number of columns of the data.
    feature_names_in_ : array of str
        Names of the columns, if they have names.

    See Also
    --------
    BPFA : The model itself, whose `impute` also returns standard deviations.

    Examples
    --------
    >>> from bpfa import BPFAImputer, draw_data
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
    >>> X[::7, 2] = np.nan
    >>> pipeline = make_pipeline(BPFAImputer(n_components=8, max_steps=50, random_state=0), PCA(2))
    >>> pipeline.fit_transform(X).shape
    (500, 2)
    >>> imputer = BPFAImputer(n_components=8, max_steps=50, random_state=0).fit(X)
    >>> bool(np.isfinite(imputer.transform(X)).all())
    True
    """

    # scikit-learn reads the names and defaults of the parameters from the signature of this method.
    __init__ = BPFA.__init__

    def fit(self, X: Any, y: Any = None, *, missing: Any = None, batch: Any = None) -> Self:
        """Fit a `BPFA` to the data.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows, shape (n_rows, n_columns)
            NaN marks a missing entry.
        y : ignored
        missing : boolean array-like, optional
            True at entries that are missing, in addition to those that are NaN.
        batch : sequence, or str, optional
            The batch of every row, as in `BPFA.fit`.

        Returns
        -------
        self

        See Also
        --------
        bpfa.BPFAImputer.transform : Fill in missing entries.
        bpfa.BPFA.fit : Learn from a whole table.

        Examples
        --------
        >>> from bpfa import BPFAImputer, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> X[::7, 2] = np.nan
        >>> imputer = BPFAImputer(n_components=4, max_steps=50, random_state=0).fit(X)
        >>> imputer.model_.components_.shape
        (4, 6)
        """
        model = BPFA(**self.get_params(deep=False)).fit(X, missing=missing, batch=batch)
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        self.model_ = model
        return self

    def transform(self, X: Any, *, missing: Any = None, batch: Any = None, to_batch: Any = None) -> Any:
        """Return the data with its missing entries filled in.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows, shape (n_rows, n_columns)
        missing : boolean array-like, optional
            True at entries that are missing, in addition to those that are NaN.
        batch : sequence, or str, optional
            The batch of every row, as in `BPFA.impute`.
        to_batch : str or int, optional
            Label of a batch of the fit that is to show all rows, as in `BPFA.impute`.

        Returns
        -------
        array of the same shape, or what `set_output` asks for
            Observed entries are unchanged. A column that had no observed entry in the fit is kept, and its
            missing entries stay NaN.

        See Also
        --------
        bpfa.BPFA.impute : Fill in missing entries.

        Examples
        --------
        >>> from bpfa import BPFAImputer, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> X[::7, 2] = np.nan
        >>> imputer = BPFAImputer(n_components=4, max_steps=50, random_state=0).fit(X)
        >>> bool(np.isfinite(imputer.transform(X)).all())
        True
        """
        check_is_fitted(self)
        rows = rows_like_those_of_the_fit(self, X, missing)
        if isinstance(batch, str):
            batch = column_of_obs(X, batch)
        filled = np.asarray(self.model_.impute(rows, batch=batch, to_batch=to_batch))
        single = getattr(X, "dtype", None) == np.float32
        return array_like(filled.astype(np.float32 if single else np.float64, copy=False), X)

    def fit_transform(self, X: Any, y: Any = None, *, missing: Any = None, batch: Any = None) -> Any:
        """Fit a `BPFA` to the data, and return the data with its missing entries filled in.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows, shape (n_rows, n_columns)
        y : ignored
        missing : boolean array-like, optional
            True at entries that are missing, in addition to those that are NaN.
        batch : sequence, or str, optional
            The batch of every row, as in `BPFA.fit`.

        Returns
        -------
        array of the same shape, or what `set_output` asks for

        See Also
        --------
        bpfa.BPFAImputer.fit : Learn from a table.
        bpfa.BPFAImputer.transform : Fill in missing entries.

        Examples
        --------
        >>> from bpfa import BPFAImputer, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> X[::7, 2] = np.nan
        >>> filled = BPFAImputer(n_components=4, max_steps=50, random_state=0).fit_transform(X)
        >>> bool(np.isfinite(filled).all())
        True
        """
        return self.fit(X, y, missing=missing, batch=batch).transform(X, missing=missing, batch=batch)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
