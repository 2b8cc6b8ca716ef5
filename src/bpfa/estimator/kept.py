"""Fitted models that are used again: on another device, or after more training on other rows."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bpfa._support.threads import check_jobs, limited_threads, one_blas_thread
from bpfa.backends.registry import check_device
from bpfa.data import RowSource, ShuffledEpochs, StandardisedRows
from bpfa.estimator.estimator import BPFA
from bpfa.estimator.publishing import publish
from bpfa.fitting.history import History
from bpfa.fitting.limits import Limits
from bpfa.fitting.plan import Plan, Standing
from bpfa.fitting.run import Callback, Outcome, run
from bpfa.inference.training import INITIALISERS
from bpfa.model.posterior import GlobalPosterior

__all__ = ["anew", "at_step", "continued", "on_device", "with_notes"]

# A feature has a place of its own in a new start unless the start itself expects more than this share of the
# rows to use what is there.
COMMON = 0.5


def on_device(model: BPFA, device: str, *, n_jobs: int | None = None, verbose: int = 0) -> BPFA:
    """Return a copy of a fitted model that computes on this device.

    Parameters
    ----------
    model : BPFA
    device : str
        As in `BPFA`.
    n_jobs, verbose : int, optional
        As in `BPFA`.

    Examples
    --------
    >>> import numpy as np
    >>> model = BPFA(2, max_steps=3, random_state=0).fit(np.random.default_rng(0).normal(size=(30, 4)))
    >>> on_device(model, "numpy").settings_.device
    'numpy'
    """
    settings = replace(model.settings_, device=check_device(device))
    moved = _copy(model, replace(model._outcome, settings=settings))
    moved.set_params(device=device, n_jobs=n_jobs, verbose=verbose)
    return moved


def with_notes(model: BPFA, notes: Mapping[str, Any]) -> BPFA:
    """Return a copy of a fitted model with notes about its rows, which are saved with it.

    Parameters
    ----------
    model : BPFA
    notes : mapping
        Arrays, and anything that JSON can express.
    """
    return _copy(model, replace(model._outcome, notes=dict(notes)))


def continued(
    model: BPFA,
    rows: RowSource,
    n_steps: int,
    *,
    least_step: float = 0.0,
    callbacks: Sequence[Callback] = (),
) -> BPFA:
    """Return a model that goes on learning from other rows; the given model stays as it is.

    The steps, and their sizes, continue where those of the model ended. The rows stand for a data set of
    their own number.

    Parameters
    ----------
    model : BPFA
        With sparse rows.
    rows : RowSource
        With the columns of the fit.
    n_steps : int
        Number of further steps.
    least_step : float
        The least step size. What was learned more than about 1 / least_step steps ago is forgotten.
    callbacks : sequence of callables
        As in `BPFA.fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from bpfa.data import ArrayRows
    >>> rng = np.random.default_rng(0)
    >>> model = BPFA(2, max_steps=3, random_state=0).fit(rng.normal(size=(30, 4)))
    >>> continued(model, ArrayRows(rng.normal(size=(40, 4))), 5).n_steps_, model.n_steps_
    (8, 3)
    """
    earlier, settings = model._outcome, replace(model.settings_, least_step=least_step)
    n_jobs = check_jobs(model.n_jobs)
    plan = Plan(
        rows=StandardisedRows(rows, earlier.scale.mean, earlier.scale.unit),
        visits=ShuffledEpochs(settings.batch_size, settings.stream),
        settings=settings,
        limits=Limits(earlier.n_steps + n_steps, None, None),
        scale=earlier.scale,
        held_out=None,
        standing=Standing(earlier.n_steps, earlier.posterior, earlier.history),
        column_names=earlier.column_names,
        n_jobs=n_jobs,
    )
    with limited_threads(n_jobs), one_blas_thread():
        outcome = run(plan, callbacks=callbacks, verbose=model.verbose)
    seen = earlier.n_rows_seen + rows.n_rows
    return copy.copy(model)._publish(replace(outcome, notes=earlier.notes, n_rows_seen=seen))


def at_step(model: BPFA, posterior: GlobalPosterior, n_steps: int) -> BPFA:
    """Return a copy of a model that has reached another posterior; its history stays as it is.

    Parameters
    ----------
    model : BPFA
    posterior : GlobalPosterior
    n_steps : int
        Number of steps that have led to it.

    Examples
    --------
    >>> import numpy as np
    >>> model = BPFA(2, max_steps=3, random_state=0).fit(np.random.default_rng(0).normal(size=(30, 4)))
    >>> at_step(model, model.posterior_, 9).n_steps_
    9
    """
    earlier = model._outcome
    return _copy(model, replace(earlier, posterior=posterior, last=None, n_steps=n_steps, best_step=n_steps))


def anew(model: BPFA, rows: RowSource) -> BPFA:
    """Return a model with the settings of another one that begins anew with other rows, and is at step 0.

    It starts like a fit to these rows: all variance is noise, and features come into use as they explain
    something. But features that the model uses take the places of as many others, at the length that those
    have, since some of them will be of use again.

    Parameters
    ----------
    model : BPFA
        With sparse rows, and not fitted by the sampler.
    rows : RowSource
        With the columns of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from bpfa.data import ArrayRows
    >>> rng = np.random.default_rng(0)
    >>> model = BPFA(2, max_steps=3, random_state=0).fit(rng.normal(size=(30, 4)))
    >>> begun = anew(model, ArrayRows(rng.normal(size=(40, 4))))
    >>> begun.n_steps_, continued(begun, ArrayRows(rng.normal(size=(40, 4))), 5).n_steps_
    (0, 5)
    """
    earlier, settings, before = model._outcome, model.settings_, model.posterior_
    assert isinstance(before, GlobalPosterior)
    start = INITIALISERS[settings.init](
        StandardisedRows(rows, earlier.scale.mean, earlier.scale.unit),
        settings.n_features,
        settings.priors,
        seed=settings.stream,
        features=settings.features,
        weight_precision=settings.weight_precision,
    )
    places = np.flatnonzero(start.pi < COMMON)
    # Those that most rows use, in the places at the end.
    kept = np.argsort(-before.pi, kind="stable")[: min(before.n_active(), len(places))]
    places = places[len(places) - len(kept) :]
    means = before.features.mean[kept]
    length = np.linalg.norm(means, axis=1, keepdims=True)
    phi, chosen = np.zeros(start.features.shape), np.zeros(start.n_features, dtype=bool)
    phi[places], chosen[places] = means / np.maximum(length, 1e-300), True
    outcome = replace(
        earlier,
        posterior=replace(start, features=start.features.with_means(chosen, phi)),
        last=None,
        n_steps=0,
        best_step=0,
        history=History().arrays(),
        n_rows_seen=rows.n_rows,
    )
    return _copy(model, outcome)


def _copy(model: BPFA, outcome: Outcome) -> BPFA:
    """Return a copy of a model with another outcome."""
    copied = copy.copy(model)
    publish(copied, outcome)
    return copied
