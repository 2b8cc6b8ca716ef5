"""Learning from a stream of rows, one part after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from sklearn.utils.metaestimators import available_if

from bpfa._support.checks import check_instance
from bpfa._support.threads import check_jobs, limited_threads, one_blas_thread
from bpfa.estimator.inputs import new_table, rows_like_those_of_the_fit, warn_of_empty_columns
from bpfa.estimator.parameters import check_parameters
from bpfa.estimator.planning import column_scale, plan_first_part, plan_next_part
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
    def partial_fit(self, X: Any, y: Any = None, *, missing: Any = None) -> Self:
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

        Returns
        -------
        self

        See Also
        --------
        bpfa.BPFA.fit : Learn from a whole table.
        bpfa.BPFA.save : Write a model to a file.
        """
        parameters = check_parameters(self.get_params())
        n_jobs = check_jobs(parameters.n_jobs)
        with limited_threads(n_jobs), one_blas_thread():
            if hasattr(self, "_outcome"):
                check_instance("posterior_", self._outcome.posterior, GlobalPosterior)
                rows = rows_like_those_of_the_fit(self, X, missing)
                plan = plan_next_part(rows, parameters, self._outcome, n_jobs)
            else:
                table = new_table(self, X, missing)
                scale = column_scale(table.rows, standardize=parameters.standardize)
                warn_of_empty_columns(scale, table.names)
                plan = plan_first_part(table, scale, parameters, n_jobs)
            outcome = run(plan)
        return self._publish(outcome)
