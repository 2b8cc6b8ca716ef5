"""What all reports have in common: facts, curves of the fit, settings, and the template."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

import bpfa
from bpfa._support.checks import Array
from bpfa._support.optional import library
from bpfa.estimator.frames import shortened
from bpfa.report.charts import line_chart

__all__ = ["noise_range", "render", "settings_of", "traces"]


def render(**content: Any) -> str:
    """Return the page, made of the template and this content."""
    jinja2 = library("jinja2", "cli", purpose="reports need jinja2")
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shortened"] = shortened
    inline = {name: Markup((folder / f"page.{name}").read_text(encoding="utf-8")) for name in ("css", "js")}
    page: str = environment.get_template("page.html").render(**content, **inline, version=bpfa.__version__)
    return page


def noise_range(noise_std: float | Array) -> str:
    """Return the noise of an image in words: one number, or the range over its channels.

    Examples
    --------
    >>> noise_range(2.5), noise_range(np.array([3.0, 1.0, 2.0]))
    ('2.5', '1 to 3')
    """
    low, high = (f"{end(noise_std):.3g}" for end in (np.min, np.max))
    return low if low == high else f"{low} to {high}"


def traces(history: Mapping[str, NDArray[Any]], noise_unit: str) -> list[tuple[str, Markup]]:
    """Return charts, each with its title, that show how a fit went."""
    columns = {
        f"Noise, {noise_unit}": history["noise_std"],
        "Features in use": history["n_active"],
        "Held-out log-likelihood": history["held_out_log_likelihood"],
        "Held-out squared error": history["held_out_mse"],
    }
    charts = {
        title: line_chart(history["step"], values, title=title, x_label="training step")
        for title, values in columns.items()
    }
    return [(title, chart) for title, chart in charts.items() if chart]


def _held_out(settings: Any) -> str:
    """Return which share of the entries the fit did not see, and what for."""
    if not settings.held_out:
        return "nothing"
    return f"{settings.held_out:.2g} of the entries, {'not ' * settings.diagnostic}scored during the fit"


def settings_of(model: Any) -> dict[str, str]:
    """Return the settings of a fit, under names for people to read."""
    settings = model.settings_
    rows = {
        "Algorithm": settings.algorithm,
        "Largest number of features": settings.n_features,
        "Posterior of the features": settings.features,
        "Weight precision learned from": f"{settings.weight_precision} weights",
        "Meant for": settings.prefer,
        "Start": settings.init,
        "Rows": f"{model.n_rows_seen_:,}",
        "Columns": f"{model.n_features_in_:,}",
        "Rows per step": f"{settings.batch_size:,}",
        "Steps": f"{model.n_steps_:,}",
        "Stopped by": (model.stopped_by_ or "").replace("_", " "),
        "Training time in seconds": f"{model.history_['seconds'][-1]:.1f}" if model.n_steps_ else "0",
        "Step size": f"(t + {settings.step_delay:g})^-{settings.step_decay:g}",
        "Local steps": ", ".join(f"{name} {value}" for name, value in settings.options.items()),
        "Priors": ", ".join(f"{name} {value:g}" for name, value in vars(settings.priors).items()),
        "Held out": _held_out(settings),
        "Seed": "none given" if model.random_state is None else model.random_state,
        "Device": settings.device,
        "Versions": f"bpfa {bpfa.__version__}, NumPy {np.__version__}",
    }
    return {name: str(value) for name, value in rows.items()}
