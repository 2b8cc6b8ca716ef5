"""A model of a step on many workers: fitted to measurements with one to four, and what it predicts for more.

`python -m benchmarks.cluster --plan` measures, fits and prints it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from scipy.optimize import nnls

from bpfa.cluster import workers as team
from bpfa.cluster.on_worker import Route
from bpfa.cluster.sharing import FAN_OUT, route_through
from experiments.markdown import table

__all__ = ["Case", "measured_times", "plan_text"]

# A gigabyte a second is a network of 8 Gbit/s, which was not measured: here, messages stay in the machine.
BYTES_A_MILLISECOND = 1e6
ROWS_OF_A_WORKER = 4096
MANY = (10, 100, 1000)


class Case(NamedTuple):
    """A step that is measured."""

    workers: int
    rows: int
    fan_out: int = FAN_OUT


CASES = [Case(n, rows) for n in (1, 2, 3, 4) for rows in (2048, 8192, 32_768)] + [
    # A chain of workers, and a tree in which everyone passes a step on to two others.
    *(Case(4, rows, fan_out) for rows in (2048, 8192) for fan_out in (1, 2)),
    Case(2, 65_536),
]
# Steps that the model is not fitted to but predicts.
UNSEEN = [Case(2, 65_536), Case(4, 8192), Case(4, 8192, 2)]

TimedOn = Callable[[int], AbstractContextManager[Callable[[int, int], float]]]
"""From a number of workers to a cluster of them, which times steps by their number of rows and of steps."""


def measured_times(timed_on: TimedOn, n_steps: int, n_rounds: int) -> list[dict[str, Any]]:
    """Return the times of all cases, which take turns; there is one cluster at a time."""
    found: dict[Case, list[float]] = {}
    for _ in range(n_rounds):
        for n_workers in sorted({case.workers for case in CASES}):
            with timed_on(n_workers) as milliseconds:
                for case in (case for case in CASES if case.workers == n_workers):
                    route = partial(route_through, fan_out=case.fan_out)
                    with mock.patch.object(team, "route_through", route):
                        found.setdefault(case, []).append(milliseconds(case.rows, n_steps))
    return [case._asdict() | {"ms": times} for case, times in found.items()]


def levels(route: Route) -> int:
    """Return how many times a step is passed on until it has reached everyone.

    Examples
    --------
    >>> levels({"a": {}, "b": {}}), levels({"a": {"b": {}}})
    (1, 2)
    """
    return 1 + max((levels(behind) for behind in route.values() if behind), default=0)


def messages(route: Route) -> int:
    """Return how many messages are sent one after another on the longest way to a worker.

    Examples
    --------
    >>> messages({"a": {}, "b": {}}), messages({"a": {"b": {}}, "c": {}})
    (2, 3)
    """
    return len(route) + max((messages(behind) for behind in route.values() if behind), default=0)


class StepModel(NamedTuple):
    """The milliseconds of the parts of a step."""

    client: float
    """What a step costs in any case: the draw of the globals, the posterior's step, a message to and fro."""
    level: float
    """Of every further time that the step is passed on."""
    message: float
    """Of every worker that somebody sends the view to, and whose sums he adds."""
    row: float
    """Of a row, on a core."""

    @staticmethod
    def counts(case: Case, n_cores: float) -> list[float]:
        """Return how often a step has each of the parts."""
        route = route_through([str(worker) for worker in range(case.workers)], case.fan_out)
        return [1.0, levels(route) - 1.0, messages(route), case.rows / min(case.workers, n_cores)]

    @classmethod
    def fitted(cls, times: dict[Case, float], n_cores: float) -> StepModel:
        """Return the model that fits times best: relative errors count, and no part is negative."""
        target = np.array(list(times.values()))
        design = np.array([cls.counts(case, n_cores) for case in times])
        return cls(*nnls(design / target[:, None], np.ones(len(target)))[0].tolist())

    def parts(self, case: Case, n_cores: float) -> list[float]:
        """Return the milliseconds that a step spends on each of the parts."""
        return [one * count for one, count in zip(self, self.counts(case, n_cores), strict=True)]


def plan_text(results: dict[str, Any]) -> str:
    """Return a model of a step, how well it predicts steps it was not fitted to, and its predictions."""
    n_cores = results["cores"]
    times = {
        Case(row["workers"], row["rows"], row["fan_out"]): float(np.median(row["ms"]))
        for row in results["times"]
    }
    model = StepModel.fitted({case: ms for case, ms in times.items() if case not in UNSEEN}, n_cores)
    predicted = {case: sum(model.parts(case, n_cores)) for case in times}
    errors = {case: predicted[case] / times[case] - 1 for case in times}
    lines = [
        [
            f"{case.workers}",
            "everyone" if case.fan_out >= case.workers else f"{case.fan_out}",
            f"{case.rows:,}",
            f"{times[case]:.1f}",
            f"{predicted[case]:.1f}",
            f"{errors[case]:+.1%}",
            "not fitted" if case in UNSEEN else "",
        ]
        for case in sorted(times)
    ]
    worst, unseen = (
        max(abs(error) for case, error in errors.items() if (case in UNSEEN) is which)
        for which in (False, True)
    )
    head = ["workers", "sent on to", "rows of a step", "measured, ms", "model, ms", "error", ""]
    return (
        f"A step takes {model.client:.2f} ms, {model.level:.2f} ms for every further level of the tree, "
        f"{model.message:.2f} ms a message, and {1e3 * model.row:.2f} us a row and core "
        f"({n_cores} cores):\n\n{table(head, lines)}\n\n"
        f"The largest error is {worst:.0%} among the steps it was fitted to, and {unseen:.0%} among the "
        "others. What it predicts for workers of one core each, on a network of 1 GB a second, which adds "
        f"{_sent(results) / BYTES_A_MILLISECOND:.2f} ms to a message:\n\n{_predictions(model, results)}"
    )


def _sent(results: dict[str, Any]) -> float:
    """Return the bytes of the view, in single precision, and of the sums, in double precision."""
    return float((4 + 2 * 8) * results["features"] * results["columns"])


def _predictions(model: StepModel, results: dict[str, Any]) -> str:
    head = [
        "workers",
        "rows of a step",
        "ms",
        "rows a second",
        "GB a second",
        "efficiency",
        "rows of a step for 80 %",
        "most beside the rows",
        "epoch of 1e8 rows",
        "epoch of 1e9 rows",
    ]
    network = _sent(results) / BYTES_A_MILLISECOND
    return table(head, [_predicted(model, n, network, results["columns"]) for n in MANY])


def _predicted(model: StepModel, n_workers: int, network: float, n_columns: int) -> list[str]:
    """Return what the model predicts for so many workers."""
    case = Case(n_workers, ROWS_OF_A_WORKER * n_workers)
    model = model._replace(message=model.message + network)
    *beside, rows = model.parts(case, n_workers)
    milliseconds = sum(beside) + rows
    rate = 1e3 * case.rows / milliseconds
    most = int(np.argmax(beside))
    epochs = [f"{n / rate:,.0f} s, {-(-int(n) // case.rows):,} steps" for n in (1e8, 1e9)]
    return [
        f"{n_workers:,}",
        f"{case.rows:,}",
        f"{milliseconds:.1f}",
        f"{rate:,.0f}",
        # Single precision. Only rows that are not held in memory have to be read.
        f"{4e-9 * n_columns * rate:,.1f}",
        f"{rows / milliseconds:.0%}",
        f"{4 * sum(beside) / model.row * n_workers:,.0f}",
        f"{('the client', 'levels', 'messages')[most]} ({beside[most]:.1f} ms)",
        *epochs,
    ]
