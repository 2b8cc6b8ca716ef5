"""Learning from a stream of rows, one part after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from sklearn.utils.metaestimators import available_if

from bpfa._support.checks import check_instance
from bpfa._support.threads import check_jobs, limited_threads, one_blas_thread
from bpfa.estimator.batching import BatchUse
from bpfa.estimator.inputs import new_table, rows_like_those_of_the_fit, warn_of_empty_columns
from bpfa.estimator.parameters import check_parameters
from bpfa.estimator.planning import plan_first_part, plan_next_part
from bpfa.fitting.run import Outcome, run
from bpfa.model.posterior import GlobalPosterior

__all__ = ["PartialFitMixin"]


def _learns_by_steps(model: PartialFitMixin) -> bool:
    """Return whether the algorithm can learn from a part of the rows at a time."""
    if model.algorithm == "gibbs":
        raise AttributeError("algorithm='gibbs' needs all rows at once: use fit")
    return True


class PartialFitMixin:
    """The method of `BPFA` that learns from a part of the rows at a time."""

    algorithm: str
    _outcome: Outcome

    if TYPE_CHECKING:

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters, as scikit-learn's BaseEstimator does."""

        def _publish(self, outcome: Outcome) -> Self: ...

    @available_if(_learns_by_steps)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, *, missing: Any = None, batch: Any = None) -> Self:
        """Learn from more rows, in a single pass over them with a step for every `batch_size` rows.

        The first call determines everything that later calls keep: the columns, their mean, scale and
        relative noise, and the number of features. The sparse start (see `init`) is not tried, because it
        needs more steps than a single pass has.

        Parameters
        ----------
        X : array-like, frame, AnnData, or Rows
        y : ignored
        missing : boolean array-like, optional
            True at entries that are missing, in addition to those that are NaN.
        batch : sequence, or str, optional
            The batch of every row, as in `fit`. The effects of batches are found in the first call and kept.
            Rows of a batch that was not in the first call, and all rows without it, are treated as rows of
            the population of batches.

        Returns
        -------
        self

        See Also
        --------
        bpfa.BPFA.fit : Learn from a whole table.
        bpfa.BPFA.save : Write a model to a file.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=4, random_state=0).partial_fit(X[:250])
        >>> model.partial_fit(X[250:]).n_rows_seen_
        500
        """
        parameters = check_parameters(self.get_params())
        n_jobs = check_jobs(parameters.n_jobs)
        with limited_threads(n_jobs), one_blas_thread():
            if hasattr(self, "_outcome"):
                check_instance("posterior_", self._outcome.posterior, GlobalPosterior)
                rows = rows_like_those_of_the_fit(self, X, missing)
                batches = BatchUse.of(self._outcome.batches, X, batch, rows.n_rows)
                plan = plan_next_part(batches.rows(rows), parameters, self._outcome, n_jobs)
            else:
                table = new_table(self, X, missing, batch)
                plan = plan_first_part(table, parameters, n_jobs)
                warn_of_empty_columns(plan.scale, table.names)
            outcome = run(plan)
        return self._publish(outcome)
