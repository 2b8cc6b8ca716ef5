"""The methods of BPFA that describe a fitted model and check how far its predictions can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.utils.validation import check_is_fitted

from bpfa._support.checks import Array
from bpfa.estimator import calibration, components
from bpfa.estimator.frames import column_labels
from bpfa.estimator.predicting import PredictionMixin
from bpfa.estimator.residuals import residual_blocks, residual_moments

__all__ = ["DiagnosticsMixin", "column_labels", "residual_blocks"]


class DiagnosticsMixin(PredictionMixin):
    """Methods of `BPFA` that describe what it has learned. They return pandas frames and need pandas.

    Components are listed as in `components_`: those in use first, and among them the one that explains most
    variance. Standardised units are the units of the data divided by `scale_`.
    """

    def component_summary(self, X: Any = None, *, batch: Any = None) -> Any:
        """Describe every component: how much it is used, how large it is and, given data, what it explains.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows, optional
        batch : sequence, or str, optional
            The batch of every row, as in `fit`.

        Returns
        -------
        pandas.DataFrame
            One row for each component, with the columns

            - `usage`: share of the rows of the fit that use it.
            - `in_use`: whether it counts in `n_components_used_`.
            - `size`: its norm in standardised units.
            - `variance_share`: its share of the variance that all components explain together, in
              standardised units, if they are independent. Components in use are sorted by it.
            - `largest_columns`: names of the three columns with the largest standardised loadings, with a
              minus in front of those whose loading is negative.
            - `variance_explained`, if X is given: by how much the squared error over the observed entries of
              X would grow if the component were taken out of the reconstruction by `transform`, with all
              other weights unchanged. It is a share of the sum of squares of these entries about `mean_`, in
              standardised units. Components that occur in the same rows and columns overlap, so these shares
              do not add up to the total, which the method `variance_explained` returns.

        See Also
        --------
        bpfa.BPFA.top_columns : The columns that a feature consists of.
        bpfa.BPFA.merge_report : Features that nearly coincide.
        bpfa.plots.plot_usage : How often features are used.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=8, max_steps=50, random_state=0).fit(X)
        >>> model.component_summary(X).columns.tolist()
        ['usage', 'in_use', 'size', 'variance_share', 'largest_columns', 'variance_explained']
        """
        check_is_fitted(self)
        return components.summary(self, X, batch)

    def top_columns(self, n: int = 10) -> Any:
        """List the columns with the largest loadings in every component.

        Parameters
        ----------
        n : int
            Number of columns to list for a component; all columns if there are fewer.

        Returns
        -------
        pandas.DataFrame
            One row for each component and column, ranked by the size of the standardised loading:
            `component`, `rank` from 1, `column`, `loading` in the units of the data, and
            `standardised_loading`.

        See Also
        --------
        bpfa.BPFA.component_summary : What each feature is, and how often it is used.
        bpfa.plots.plot_components : The features.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=8, max_steps=50, random_state=0).fit(X)
        >>> model.top_columns(2)[["component", "rank"]].head(3)
          component  rank
        0     bpfa0     1
        1     bpfa0     2
        2     bpfa1     1
        """
        check_is_fitted(self)
        return components.top_columns(self, n)

    def merge_report(self, similarity: float = 0.95) -> Any:
        """List components that are nearly the same as another one, and components that are not used.

        Parameters
        ----------
        similarity : float
            Two components in use are near-duplicates if the absolute value of the cosine between them, in
            standardised units, is above this number. The sign does not matter, because a weight may have
            either sign.

        Returns
        -------
        pandas.DataFrame
            First the pairs that could be merged into one ("merge"), the most similar pair first, then the
            components that are not in use ("prune"). The columns are `component`,
            `other`, `usage`, `other_usage`, `cosine` and `advice`. The frame is empty if there is nothing to
            merge or prune.

        See Also
        --------
        bpfa.BPFA.component_summary : What each feature is, and how often it is used.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=8, max_steps=50, random_state=0).fit(X)
        >>> model.merge_report().columns.tolist()
        ['component', 'other', 'usage', 'other_usage', 'cosine', 'advice']
        """
        check_is_fitted(self)
        return components.merge_report(self, similarity)

    def variance_explained(
        self,
        X: Any,
        held_out: Any = None,
        *,
        batch: Any = None,
        per_column: bool = False,
        n_draws: int = 20,
    ) -> Any:
        """Compute how much variance the model explains, of entries that it sees and of held-out entries.

        The variance explained is 1 - (squared error of the mean prediction) / (squares about `mean_`), in
        standardised units. It is 0 if every entry is predicted by its column's mean, and it can be negative.
        Only the value for held-out entries shows whether the model has learned anything: with enough
        components, a model explains any entries that it sees.

        Entries that are hidden only now, after the fit has learned from them, are predicted too well. If X is
        the data of the fit, the entries that the fit has held out are therefore used (see the parameter
        `held_out` of `BPFA`). Where there are none, the frame says "seen in the fit". It says so, too, for
        some rows of the fit, or for its rows in another order or with other entries missing. They are
        recognised by a sample of the entries that the fit has seen. The sample may not contain any of a few
        rows of a large table.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        held_out : boolean array-like, optional
            True at the entries to hide from the model while it predicts them. By default they are those of
            `score`: what the fit has held out, or a tenth of the entries of new rows.
        batch : sequence, or str, optional
            The batch of every row, as in `fit`.
        per_column : bool
            Return a row for every column of the data, instead of all columns together.
        n_draws : int
            Number of draws from the posterior.

        Returns
        -------
        pandas.DataFrame
            With the columns `entries`, `column` if `per_column` is set, `n_entries`, and
            `variance_explained`, which is NaN if there are no entries or all of them are equal to the mean.
            `entries` is "observed" for those that the model sees while it predicts. The hidden ones are "held
            out" or, if the model has learned from them in the fit, "seen in the fit"; they are "perhaps seen
            in the fit" if that is not known, as for a model that was saved by an early version.

        See Also
        --------
        bpfa.BPFA.calibration : Whether intervals contain as much as they promise.
        bpfa.BPFA.residuals : Whether what is left looks like noise.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=8, max_steps=50, random_state=0).fit(X)
        >>> model.variance_explained(X)[["entries", "n_entries"]]
                   entries  n_entries
        0         observed       2696
        1  seen in the fit        304
        >>> new = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=1).y
        >>> model.variance_explained(new)["entries"].tolist()
        ['observed', 'held out']
        """
        check_is_fitted(self)
        return calibration.variance_explained(
            self, X, held_out, per_column=per_column, n_draws=n_draws, labels=batch
        )

    def calibration(
        self,
        X: Any,
        held_out: Any = None,
        *,
        batch: Any = None,
        levels: Sequence[float] | Array = (0.5, 0.8, 0.95),
        per_column: bool = False,
        n_draws: int = 99,
    ) -> Any:
        """Compute how often predictive intervals contain the true values of held-out entries.

        The intervals are quantiles of draws from the predictive distribution, noise included. If the model is
        right, the true value is one more such draw: it falls equally often into each of the n + 1 parts into
        which n draws divide the line. The coverage is therefore right for any number of draws and any shape
        of the distribution. If a component may or may not be in a row, the distribution has a sharp peak;
        normal intervals, from the mean and standard deviation of `impute`, then cover more than 50 % and less
        than 95 %.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        held_out : boolean array-like, optional
            True at the entries to hide from the model while it predicts them. By default they are those of
            `score`: what the fit has held out, or a tenth of the entries of new rows.
        batch : sequence, or str, optional
            The batch of every row, as in `fit`.
        levels : sequence of float
            Nominal probabilities of the central intervals.
        per_column : bool
            Return a row for every column of the data, instead of all columns together.
        n_draws : int
            Number of draws from the posterior. An interval of a level needs at least 2 / (1 - level) - 1.

        Returns
        -------
        pandas.DataFrame
            With the columns `level`, `column` if `per_column` is set, `entries`, `n_entries`, `coverage`
            (share of the entries inside their interval) and `width` (mean width of the intervals, in
            standardised units). `entries` is as in `variance_explained`: "held out", or "seen in the fit" if
            the model has learned from these entries, so that it covers more of them than of others.

        See Also
        --------
        variance_explained : How well the entries are predicted.
        bpfa.plots.plot_coverage : The same as a picture.

        References
        ----------
        .. [1] T. Gneiting, F. Balabdaoui and A. E. Raftery, "Probabilistic Forecasts, Calibration and
           Sharpness", Journal of the Royal Statistical Society B 69 (2007).

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=8, max_steps=50, random_state=0).fit(X)
        >>> calibration = model.calibration(X)
        >>> calibration["level"].tolist(), bool((calibration["coverage"].diff().dropna() > 0).all())
        ([0.5, 0.8, 0.95], True)
        """
        check_is_fitted(self)
        return calibration.calibration(
            self, X, held_out, levels=levels, per_column=per_column, n_draws=n_draws, labels=batch
        )

    def residuals(self, X: Any, *, batch: Any = None) -> Any:
        """Check for every column whether what the model leaves unexplained looks like normal noise.

        A residual is an entry minus its reconstruction, divided by the standard deviation of the noise, all
        at a single draw from the posterior. If the model is right, residuals are standard normal. At the mean
        of the posterior, which has seen the entry, they would be smaller.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        batch : sequence, or str, optional
            The batch of every row, as in `fit`.

        Returns
        -------
        pandas.DataFrame
            One row for each column of the data. Standard normal residuals have the values in brackets:
            `n_entries`, `mean` (0), `std` (1; if larger, the column is noisier than the model assumes),
            `skewness` (0), `excess_kurtosis` (0), and `beyond_3`, the share of the residuals that are more
            than three standard deviations of the noise from zero (0.0027).

        See Also
        --------
        bpfa.BPFA.calibration : Whether intervals contain as much as they promise.
        bpfa.plots.plot_residuals : What is left over.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=8, max_steps=50, random_state=0).fit(X)
        >>> model.residuals(X).loc["x0", "n_entries"]
        np.int64(500)
        """
        check_is_fitted(self)
        return residual_moments(self, X, batch)
