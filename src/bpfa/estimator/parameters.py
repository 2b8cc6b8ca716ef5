"""From the parameters of the estimator and the shape of the data to the settings of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bpfa._support.checks import check_choice, check_integer, check_number
from bpfa._support.philox import Stream
from bpfa.backends.numpy.gibbs import MOST_DROPOUT
from bpfa.fitting.limits import Limits
from bpfa.fitting.run import Settings
from bpfa.inference.algorithms import ALGORITHMS, check_device
from bpfa.inference.starts import principal_alone
from bpfa.inference.training import INITIALISERS
from bpfa.model.features import FEATURES
from bpfa.model.posterior import WEIGHT_PRECISIONS
from bpfa.model.priors import as_priors
from bpfa.selection import defaults

__all__ = ["NOISE", "Start", "limits_of", "local_options", "settings_of"]

NOISE = ("columns", "shared")


class Start(NamedTuple):
    """How many features there are, and where they start."""

    n_features: int
    init: str


def settings_of(
    parameters: dict[str, Any], n_rows: int, n_columns: int, choose: Callable[[int, Settings], Start]
) -> Settings:
    """Return the settings of a fit, every parameter checked and every default decided.

    Parameters
    ----------
    parameters : dict
        Those of `BPFA`, by name.
    n_rows, n_columns : int
        Shape of the data.
    choose : callable
        From the usual largest number of features, and the settings but for their number, to the start, where
        the user leaves that number open. It is asked last, as it may have to look at the data.

    Examples
    --------
    >>> from bpfa import BPFA
    >>> parameters = BPFA(random_state=0).get_params()
    >>> def choose(largest, settings):
    ...     return Start(largest, settings.init)
    >>> settings_of(parameters, n_rows=10_000, n_columns=20, choose=choose).n_features
    13
    """
    name = check_choice("algorithm", parameters["algorithm"], tuple(ALGORITHMS))
    cell = ALGORITHMS[name]
    features = check_choice("features", parameters["features"], ("auto", *FEATURES))
    weight_precision = check_choice(
        "weight_precision", parameters["weight_precision"], ("auto", *WEIGHT_PRECISIONS)
    )
    if weight_precision == "auto":
        weight_precision = "all" if cell.method == "MeanField" else "active"
    init = check_choice("init", parameters["init"], ("auto", *INITIALISERS))
    if init == "auto":
        init = defaults.default_init(n_columns)
    noise = check_choice("noise", parameters["noise"], ("auto", *NOISE))
    if noise == "auto":
        noise = defaults.default_noise(n_columns)
    device = check_device(parameters["device"])
    held_out = check_number("held_out", parameters["held_out"], low=0.0, high=0.9)
    if parameters["patience"] is not None and not held_out:
        raise ValueError(
            f"patience={parameters['patience']}: nothing is held out that could get better; "
            "expected held_out > 0"
        )
    _check_revise(parameters["revise"], name, held_out)
    settings = Settings(
        n_features=0,
        algorithm=name,
        features=features,
        weight_precision=weight_precision,
        priors=as_priors(parameters["priors"]),
        batch_size=_batch_size(parameters["batch_size"], n_rows),
        step_delay=check_number("step_delay", parameters["step_delay"], low=0.0),
        step_decay=check_number("step_decay", parameters["step_decay"], low=0.0, high=1.0),
        init=init,
        noise=noise,
        held_out=held_out,
        options=local_options(parameters, cell.method),
        device=device,
        key=_key(parameters["random_state"]),
    )
    largest = defaults.most_components(n_rows, n_columns)
    if parameters["n_components"] is None:
        start = choose(largest, settings)
    else:
        start = Start(check_integer("n_components", parameters["n_components"], low=1), init)
    if features == "auto":
        features = defaults.default_features(cell.view, start.n_features, n_columns)
    options = settings.options
    if parameters["dropout"] is None and _found_sparse(parameters, start.init):
        options = options | {"dropout": defaults.SPARSE_DROPOUT}
    most = (start.n_features if parameters["n_components"] else largest) if parameters["revise"] else 0
    return replace(settings, **start._asdict(), features=features, most_features=most, options=options)


def _found_sparse(parameters: dict[str, Any], init: str) -> bool:
    """Return whether it is the data that asked for features that few rows have."""
    return init == "common" and parameters["init"] == "auto"


def _check_revise(revise: Any, algorithm: str, held_out: float) -> None:
    if not isinstance(revise, (bool, np.bool_)):
        raise TypeError(f"revise={revise!r}: expected True or False")
    if revise and algorithm == "gibbs":
        raise ValueError("revise=True: a chain over all rows keeps its features; expected another algorithm")
    if revise and not held_out:
        raise ValueError("revise=True: nothing is held out that could judge; expected held_out > 0")


def local_options(parameters: dict[str, Any], method: str) -> dict[str, Any]:
    """Return the options of a local method."""
    given = parameters["dropout"]
    dropout = 0.0 if given is None else check_number("dropout", given, low=0.0, high=MOST_DROPOUT)
    if method == "Gibbs":
        return {
            "burn_in": check_integer("burn_in", parameters["burn_in"], low=0),
            "n_samples": check_integer("n_samples", parameters["n_samples"], low=1),
            "dropout": dropout,
        }
    # Which algorithms can dropout entries, `algorithm` knows.
    hidden = {"dropout": dropout} if dropout else {}
    return {"n_sweeps": check_integer("n_sweeps", parameters["n_sweeps"], low=1), **hidden}


def limits_of(parameters: dict[str, Any], settings: Settings, n_rows: int, n_columns: int) -> Limits:
    """Return the limits of a fit; without any it has one of its own."""
    max_epochs, max_steps, max_time, patience = (
        parameters[name] for name in ("max_epochs", "max_steps", "max_time", "patience")
    )
    if max_steps is not None:
        max_steps = check_integer("max_steps", max_steps, low=1)
    if max_time is not None:
        max_time = check_number("max_time", max_time, low=0.0, open_low=True)
    if patience is not None:
        patience = check_integer("patience", patience, low=1)
    batch_size = n_rows if settings.algorithm == "gibbs" else settings.batch_size
    per_epoch = -(-n_rows // batch_size)
    if max_epochs is not None:
        steps = max(1, round(check_number("max_epochs", max_epochs, low=0.0, open_low=True) * per_epoch))
        max_steps = steps if max_steps is None else min(steps, max_steps)
    if max_steps is None and max_time is None:
        principal = settings.init == "principal" and principal_alone(settings.n_features, n_columns)
        fewest = defaults.MANY_STEPS
        if principal and not settings.most_features:
            fewest = defaults.FEW_STEPS
        elif _found_sparse(parameters, settings.init):
            fewest = defaults.SOME_STEPS
        usual = defaults.default_steps(n_rows, settings.batch_size, fewest)
        max_steps = defaults.SWEEPS if settings.algorithm == "gibbs" else usual
    return Limits(max_steps, max_time, patience)


def _batch_size(given: Any, n_rows: int) -> int:
    return defaults.default_batch_size(n_rows) if given is None else check_integer("batch_size", given, low=1)


def _key(random_state: Any) -> int:
    """Return the key of the stream of a seed, a RandomState or fresh entropy."""
    if isinstance(random_state, (int, np.integer)):
        return Stream.from_seed(int(random_state)).key
    if random_state is None:
        return Stream.from_seed(None).key
    return Stream.from_seed(int(check_random_state(random_state).randint(2**31))).key
