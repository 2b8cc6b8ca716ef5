"""How a picture is to be restored: every option checked against the picture, every default decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from types import MappingProxyType
from typing import Any

from bpfa._support.checks import check_integer
from bpfa.data.patches import PatchRows
from bpfa.estimator import BPFA
from bpfa.images import defaults
from bpfa.images.canvas import Canvas
from bpfa.images.groups.plan import GroupPlan, plan_groups
from bpfa.images.kept import PictureForm
from bpfa.images.options import RestorationOptions

__all__ = ["RestorationPlan", "plan_restoration"]

# Number of values in a patch above which a fit would take hours and the memory of a large machine.
MAX_COLUMNS = 16_384


@dataclass(frozen=True)
class RestorationPlan:
    """How a picture is to be restored.

    Parameters
    ----------
    patch_size : pair of int
        Height and width of a patch.
    stride : int
        Distance in pixels between the patches that are restored; the model learns from all patches.
    n_draws : int
        Number of draws from the posterior behind the restored picture.
    n_samples, burn_in : int
        Samples of a patch under each of them, and sweeps before the first.
    model_parameters : mapping
        Parameters of `BPFA`, by name.
    noisy : bool
        Whether the observed pixels are noisy.
    groups : GroupPlan or None
        How patches are grouped in the second stage; None if there is no second stage.
    """

    patch_size: tuple[int, int]
    stride: int
    n_draws: int
    n_samples: int
    burn_in: int
    model_parameters: Mapping[str, Any]
    noisy: bool = False
    groups: GroupPlan | None = None


def plan_restoration(canvas: Canvas, options: RestorationOptions, *, noisy: bool) -> RestorationPlan:
    """Return how a picture is to be restored.

    Parameters
    ----------
    canvas : Canvas
    options : RestorationOptions
    noisy : bool
        Whether the observed pixels are noisy.

    Examples
    --------
    >>> import numpy as np
    >>> plan = plan_restoration(Canvas.of(np.eye(64)), RestorationOptions(), noisy=True)
    >>> plan.patch_size, plan.stride, plan.model_parameters["max_steps"], plan.model_parameters["init"]
    ((8, 8), 1, 2000, 'common')
    """
    if options.model is not None:
        kept = PictureForm.of_model(options.model)
        kept.check_options(options)
        options = replace(options, patch_size=kept.patch_size)
    patch_size = _patch_size(options.patch_size, canvas)
    stride = defaults.default_stride(patch_size) if options.stride is None else options.stride
    return RestorationPlan(
        patch_size=patch_size,
        stride=check_integer("stride", stride, low=1, high=min(patch_size)),
        n_draws=options.n_draws,
        n_samples=options.patch_samples,
        burn_in=options.patch_burn_in,
        model_parameters=MappingProxyType(
            _model_parameters(canvas.patches(patch_size), float(canvas.observed.mean()), options, noisy)
        ),
        noisy=noisy,
        groups=None if options.refine is None else plan_groups(canvas.observed, noisy=noisy),
    )


def _patch_size(patch_size: Any, canvas: Canvas) -> tuple[int, int]:
    """Return height and width of a patch that fits into the picture and is small enough to be fitted."""
    _, rows, columns, n_channels = canvas.values.shape
    if patch_size is None:
        patch_size = defaults.default_patch_size(rows, columns, n_channels, canvas.observed.mean())
    pair = tuple(patch_size) if isinstance(patch_size, Sequence) else (patch_size, patch_size)
    if len(pair) != 2:
        raise ValueError(f"patch_size={patch_size}: expected an integer, or height and width")
    height, width = (check_integer("patch_size", size, low=1) for size in pair)
    if height > rows or width > columns:
        raise ValueError(
            f"patch_size={patch_size}: the image is {rows} x {columns} pixels, smaller than a patch; "
            "expected a smaller patch_size"
        )
    if (n_columns := height * width * n_channels) > MAX_COLUMNS:
        raise ValueError(
            f"patch_size={patch_size}: {height} x {width} pixels of {n_channels} channels are {n_columns} "
            f"numbers in a patch; expected at most {MAX_COLUMNS}: use a smaller patch_size, or sum channels"
        )
    return height, width


def _model_parameters(
    patches: PatchRows, observed: float, options: RestorationOptions, noisy: bool
) -> dict[str, Any]:
    """Return the parameters of `BPFA` for a picture of which this share is observed."""
    # An option with the name of a parameter of the model is that parameter.
    names = [declared.name for declared in fields(options) if declared.name in signature(BPFA).parameters]
    parameters = {name: getattr(options, name) for name in names}
    if options.n_components is None:
        parameters["n_components"] = min(patches.n_rows, defaults.N_COMPONENTS)
    if options.max_epochs is None and options.max_steps is None and options.max_time is None:
        parameters["max_steps"] = defaults.default_steps(observed)
    if options.init is None:
        parameters["init"] = defaults.default_init(patches.n_columns, observed, noisy=noisy)
    if options.dropout is None:
        # No other algorithm can hide entries from its chains.
        can_hide = options.algorithm == "gibbs-ssvi"
        parameters["dropout"] = defaults.default_dropout(observed) if can_hide else 0.0
    return parameters | {
        "batch_size": min(patches.n_rows, defaults.BATCH_SIZE),
        "step_delay": defaults.STEP_DELAY,
        "step_decay": defaults.STEP_DECAY,
        # The canvas is standardised by channel, and the noise of all its pixels is the same in those units.
        "standardize": False,
        # Every patch uses a few features, even where there are fewer patches than pixels in a patch.
        "sparse": "rows",
        "noise": "shared",
        # A pixel that is held out from one patch is still in others.
        "held_out": 0.0,
    }
