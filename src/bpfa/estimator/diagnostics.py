"""What a fitted BPFA says: its components, what they explain, and how far its predictions can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bpfa._support.checks import Array, check_array, check_integer, check_number
from bpfa._support.optional import library
from bpfa.data import Batch, sequential
from bpfa.estimator.transform import TransformMixin
from bpfa.prediction.predictions import content_ids, predict, row_weights
from bpfa.prediction.scores import posterior_draws

__all__ = ["DiagnosticsMixin", "column_labels", "residual_blocks"]

# Entries of a block of rows, or weights where they are more: some tens of MiB while a block is worked on.
BLOCK_ENTRIES = 2**18


class DiagnosticsMixin(TransformMixin):
    """Methods of `BPFA` that say in frames what it has learned. They need pandas.

    Components come in the order of the model, the most used first. Standardised units are those of the
    columns' scales, `scale_`.
    """

    n_components_used_: int

    def component_summary(self, X: Any = None) -> Any:
        """Say of every component how much it is used, how large it is and, given data, what it explains.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows, optional

        Returns
        -------
        pandas.DataFrame
            A row a component:

            - `usage`: share of the rows of the fit that use it.
            - `in_use`: whether more than one row in a thousand, and more than one row, does.
            - `size`: its norm in standardised units.
            - `variance_explained`, with X: by how much the squared error over the observed entries of X would
              grow if the component were taken out of the reconstruction by `transform`, all other weights as
              they are, as a share of the squares of these entries about `mean_`, in standardised units.
              Components that are in the same rows and columns overlap, so these shares do not add up to the
              total, which `variance_explained` tells.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=8, max_steps=50, random_state=0).fit(X)
        >>> model.component_summary(X).columns.tolist()
        ['usage', 'in_use', 'size', 'variance_explained']
        """
        check_is_fitted(self)
        phi = self.components_ / self.scale_
        columns = {
            "usage": self.component_probabilities_,
            "in_use": np.arange(len(phi)) < self.n_components_used_,
            "size": np.linalg.norm(phi, axis=1),
        }
        if X is not None:
            columns["variance_explained"] = _explained_by_each(self, X)
        return _frame(columns, index=_component_names(self), index_name="component")

    def variance_explained(
        self, X: Any, held_out: Any = None, *, per_column: bool = False, n_draws: int = 20
    ) -> Any:
        """Say how much of the variance the model explains, of entries it sees and of entries it does not.

        The variance explained is 1 - (squared error of the mean prediction) / (squares about `mean_`), in
        standardised units. It is 0 for the prediction of the mean, and may be negative. Only that of
        held-out entries tells whether the model has learned something: a model with enough components
        explains any entries that it sees.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        held_out : boolean array-like, optional
            True where an entry is to be held out from the model; a tenth of them at random by default, those
            that `score` hides.
        per_column : bool
            A row for every column, instead of all columns together.
        n_draws : int
            Draws from the posterior.

        Returns
        -------
        pandas.DataFrame
            With the columns `entries` ("observed" or "held out"), `column` where asked for, `n_entries` and
            `variance_explained`, which is NaN where there are no entries, or only entries at the mean.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=8, max_steps=50, random_state=0).fit(X)
        >>> model.variance_explained(X)[["entries", "n_entries"]]
            entries  n_entries
        0  observed       2696
        1  held out        304
        """
        check_is_fitted(self)
        n, error, total = np.zeros((3, 2, len(self.scale_)))
        for batch, truth, mask in self._held_out_blocks(X, held_out, _block_rows(self)):
            mean = predict(
                self.posterior_, batch, self._algorithm(), n_draws=n_draws, stream=self._stream
            ).mean
            for i, chosen in enumerate((batch.observed, mask)):
                n[i] += chosen.sum(axis=0)
                error[i] += (np.where(chosen, truth - mean, 0.0) ** 2).sum(axis=0)
                total[i] += (np.where(chosen, truth, 0.0) ** 2).sum(axis=0, dtype=np.float64)
        error, total = error * self.noise_ratio_**2, total * self.noise_ratio_**2
        names = column_labels(self) if per_column else None
        if names is None:
            n, error, total = (sums.sum(axis=1, keepdims=True) for sums in (n, error, total))
        columns = _labels("entries", ["observed", "held out"], names)
        columns |= {
            "n_entries": n.ravel().astype(int),
            "variance_explained": 1 - _ratio(error, total).ravel(),
        }
        return _frame(columns)

    def top_columns(self, n: int = 10) -> Any:
        """Say which columns weigh most in every component.

        Parameters
        ----------
        n : int
            Columns of a component; all where there are fewer.

        Returns
        -------
        pandas.DataFrame
            A row for each component and column, ranked by the size of the standardised loading:
            `component`, `rank` from 1, `column`, `loading` in the units of the data, and
            `standardised_loading`.

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
        n = min(check_integer("n", n, low=1), len(self.scale_))
        standardised = self.components_ / self.scale_
        top = np.argsort(-np.abs(standardised), axis=1, kind="stable")[:, :n]
        columns = {
            "component": np.repeat(_component_names(self), n),
            "rank": np.tile(np.arange(1, n + 1), len(top)),
            "column": column_labels(self)[top].ravel(),
            "loading": np.take_along_axis(self.components_, top, axis=1).ravel(),
            "standardised_loading": np.take_along_axis(standardised, top, axis=1).ravel(),
        }
        return _frame(columns)

    def merge_report(self, similarity: float = 0.95) -> Any:
        """Say which components are nearly the same as another, and which are not used.

        Parameters
        ----------
        similarity : float
            Two components in use are near-duplicates when the absolute cosine between them, in standardised
            units, is above this: a weight may have either sign, so opposite components say the same.

        Returns
        -------
        pandas.DataFrame
            First the pairs that could be one ("merge"), the most similar first, then the components that no
            more than one row in a thousand uses ("prune"): `component`, `other`, `usage`, `other_usage`,
            `cosine`, `advice`. Empty where there is nothing to say.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=8, max_steps=50, random_state=0).fit(X)
        >>> model.merge_report().columns.tolist()
        ['component', 'other', 'usage', 'other_usage', 'cosine', 'advice']
        """
        check_is_fitted(self)
        similarity = check_number("similarity", similarity, low=0.0, high=1.0)
        # The most used come first, and n_components_used_ of them are in use.
        n_used, n_components = self.n_components_used_, len(self.components_)
        used = self.components_[:n_used] / self.scale_
        norms = np.linalg.norm(used, axis=1, keepdims=True)
        directions = used / np.where(norms > 0, norms, 1.0)
        cosines = np.triu(directions @ directions.T, k=1)
        first, second = np.nonzero(np.abs(cosines) > similarity)
        order = np.argsort(-np.abs(cosines[first, second]), kind="stable")
        first, second = first[order], second[order]
        dead = np.arange(n_used, n_components)
        names, usage = _component_names(self), self.component_probabilities_
        nothing = np.full(len(dead), np.nan)
        columns = {
            "component": np.append(names[first], names[dead]),
            "other": np.append(names[second], np.full(len(dead), None)),
            "usage": np.append(usage[first], usage[dead]),
            "other_usage": np.append(usage[second], nothing),
            "cosine": np.append(cosines[first, second], nothing),
            "advice": np.repeat(["merge", "prune"], [len(first), len(dead)]),
        }
        return _frame(columns)

    def calibration(
        self,
        X: Any,
        held_out: Any = None,
        *,
        levels: Sequence[float] | Array = (0.5, 0.8, 0.95),
        per_column: bool = False,
        n_draws: int = 99,
    ) -> Any:
        """Say how often predictive intervals cover the truth, of entries that are held out from the model.

        The intervals are quantiles of draws from the predictive distribution, noise included. If the model is
        right, the truth is one more such draw, and n of them divide the line into n + 1 parts in which it
        falls equally often; so the coverage is right for any number of draws and any shape of the
        distribution. Where a component may or may not be in a row the distribution is peaked, and normal
        intervals, of the mean and standard deviation of `impute`, cover more than 50 % and less than 95 %.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        held_out : boolean array-like, optional
            True where an entry is to be held out; a tenth of them at random by default, those that `score`
            hides.
        levels : sequence of float
            Probabilities that the central intervals are meant to have.
        per_column : bool
            A row for every column, instead of all columns together.
        n_draws : int
            Draws from the posterior; the tails of a level need at least 2 / (1 - level) - 1.

        Returns
        -------
        pandas.DataFrame
            With the columns `level`, `column` where asked for, `n_entries`, `coverage` (share of the entries
            inside their interval) and `width` (mean width of the intervals, in standardised units).

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
        n_draws = check_integer("n_draws", n_draws, low=1)
        chosen = _checked_levels(levels, n_draws)
        n, (covered, width) = np.zeros(len(self.scale_)), np.zeros((2, len(chosen), len(self.scale_)))
        for i, (batch, truth, mask) in enumerate(self._held_out_blocks(X, held_out, _block_rows(self))):
            predicted = _predictive_draws(self, batch, mask, n_draws, block=i)
            # The position of the p-quantile among n sorted draws is p (n + 1).
            low, high = np.quantile(predicted, [(1 - chosen) / 2, (1 + chosen) / 2], axis=0, method="weibull")
            inside, column = (low <= truth[mask]) & (truth[mask] <= high), np.nonzero(mask)[1]
            n += mask.sum(axis=0)
            for j in range(len(chosen)):
                covered[j] += np.bincount(column, inside[j], minlength=len(n))
                width[j] += np.bincount(column, high[j] - low[j], minlength=len(n))
        width *= self.noise_ratio_
        names = column_labels(self) if per_column else None
        n = np.broadcast_to(n, covered.shape)
        if names is None:
            n, covered, width = (sums.sum(axis=1, keepdims=True) for sums in (n, covered, width))
        columns = _labels("level", chosen, names)
        columns |= {
            "n_entries": n.ravel().astype(int),
            "coverage": _ratio(covered, n).ravel(),
            "width": _ratio(width, n).ravel(),
        }
        return _frame(columns)

    def residuals(self, X: Any) -> Any:
        """Say of every column whether what the model leaves over of its entries looks like the noise.

        A residual is an entry less its reconstruction, over the noise, all at one draw from the posterior.
        If the model is right it is standard normal; at the mean of the posterior, which has seen the entry,
        it would be smaller than the noise.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows

        Returns
        -------
        pandas.DataFrame
            A row a column of the data: `n_entries`, `mean` (0 for the normal), `std` (1: a larger one means
            more noise than in other columns), `skewness` (0), `excess_kurtosis` (0) and `beyond_3`, the share
            of the residuals beyond three standard deviations of the noise (0.0027).

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=8, max_steps=50, random_state=0).fit(X)
        >>> model.residuals(X).loc["x0", "n_entries"]
        np.int64(500)
        """
        check_is_fitted(self)
        n, beyond, *powers = np.zeros((6, len(self.scale_)))
        for residual, observed in residual_blocks(self, X):
            n += observed.sum(axis=0)
            beyond += (np.abs(residual) > 3).sum(axis=0)
            for p, sums in enumerate(powers, start=1):
                sums += (residual**p).sum(axis=0)
        mean, second, third, fourth = (_ratio(sums, n) for sums in powers)
        variance = np.maximum(second - mean**2, 0.0)
        central_fourth = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
        columns = {
            "n_entries": n.astype(int),
            "mean": mean,
            "std": np.sqrt(variance),
            "skewness": _ratio(third - 3 * mean * second + 2 * mean**3, variance**1.5),
            "excess_kurtosis": _ratio(central_fourth, variance**2) - 3,
            "beyond_3": _ratio(beyond, n),
        }
        return _frame(columns, index=column_labels(self), index_name="column")


def residual_blocks(model: DiagnosticsMixin, X: Any) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
    """Yield the residuals of some rows at a time, in units of the noise, and which entries are observed.

    See `DiagnosticsMixin.residuals`. A residual is 0 where an entry is missing.
    """
    for batch in sequential(model._standardised(X), block_rows=_block_rows(model)):
        keyed, stream = content_ids(batch), model._stream.child("residuals")
        [draw] = posterior_draws(model.posterior_, keyed, model._row_algorithm(), n_draws=1, stream=stream)
        yield np.where(batch.observed, (batch.values - draw.mean) * draw.g_o**0.5, 0.0), batch.observed


def _explained_by_each(model: DiagnosticsMixin, X: Any) -> Array:
    """Return by how much the squared error grows without each component, as a share of all squares."""
    phi, total = model.components_ / model.scale_, 0.0
    grown = np.zeros(len(phi))
    for batch in sequential(model._standardised(X), block_rows=_block_rows(model)):
        x = row_weights(model.posterior_, batch, model._row_algorithm(), model._stream)[
            :, model._component_order
        ]
        values = batch.values * model.noise_ratio_
        residual = np.where(batch.observed, values - x @ phi, 0.0)
        # (r + x_k phi_k)^2 - r^2, summed over the observed entries
        grown += (2 * x * (residual @ phi.T) + x**2 * (batch.observed @ (phi**2).T)).sum(axis=0)
        total += float((values**2).sum())
    return _ratio(grown, np.asarray(total))


def _predictive_draws(
    model: DiagnosticsMixin, batch: Batch, mask: NDArray[np.bool_], n_draws: int, block: int
) -> Array:
    """Draw the chosen entries of some rows from their predictive distribution; n_draws x entries."""
    draws = posterior_draws(
        model.posterior_,
        content_ids(batch),
        model._algorithm(),
        n_draws=n_draws,
        stream=model._stream.child("prediction"),
    )
    noise = model._stream.child("noise").generator(block)
    return np.stack([noise.normal(draw.mean[mask], draw.g_o**-0.5) for draw in draws])


def _checked_levels(levels: Sequence[float] | Array, n_draws: int) -> Array:
    chosen = check_array("levels", levels, (None,))
    if not len(chosen) or not ((chosen > 0) & (chosen < 1)).all():
        raise ValueError(f"levels={levels!r}: expected numbers between 0 and 1, at least one")
    needed = int(np.ceil(2 / (1 - chosen.max()) - 1 - 1e-9))
    if n_draws < needed:
        raise ValueError(f"n_draws={n_draws}: expected at least {needed}, for the tails of {chosen.max():g}")
    return chosen


def _block_rows(model: DiagnosticsMixin) -> int:
    return int(max(1, BLOCK_ENTRIES // max(model.components_.shape)))


def _component_names(model: DiagnosticsMixin) -> NDArray[Any]:
    return np.asarray(model.get_feature_names_out(), dtype=object)


def column_labels(model: DiagnosticsMixin) -> NDArray[Any]:
    """Return the names of the columns of the data, or x0, x1... where they have none."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{d}" for d in range(len(model.scale_))]
    return np.asarray(names, dtype=object)


def _labels(name: str, values: Any, columns: NDArray[Any] | None) -> dict[str, Any]:
    """Return the columns of a frame that label its rows: values, or each of them with every data column."""
    if columns is None:
        return {name: values}
    return {name: np.repeat(values, len(columns)), "column": np.tile(columns, len(values))}


def _ratio(part: Array, whole: Array) -> Array:
    """Return part / whole, NaN where the whole is nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def _frame(columns: dict[str, Any], index: Any = None, index_name: str | None = None) -> Any:
    pandas = library("pandas", "tables", purpose="the frames of a model need pandas")
    return pandas.DataFrame(columns, index=None if index is None else pandas.Index(index, name=index_name))
