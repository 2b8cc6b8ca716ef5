"""The report of a restored image."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa._support.checks import Array
from bpfa.estimator.components import variance_shares
from bpfa.images.files import Picture
from bpfa.images.signals import as_arrays
from bpfa.report.charts import coverage_chart
from bpfa.report.groups import group_content
from bpfa.report.page import noise_range, render, settings_of, traces
from bpfa.report.pictures import COLOURS, atom, colour_map, frame, grey, picture_uri
from bpfa.report.truth import LEVELS, Comparison

__all__ = ["image_report"]

# The darkest and the brightest pixels, this percentage of them each, may be shown as pure black and white, so
# that a few extreme values do not determine the contrast of the whole picture.
CUT_PERCENT = 0.2
# The largest size of the pictures of dictionary and groups, so that the page stays small enough to be sent.
STAGE_BYTES = 400_000
# A page shows at most this many features.
MOST_ATOMS = 512
TIMES = " \N{MULTIPLICATION SIGN} "


def image_report(
    result: Any, picture: Picture, *, command: str | None = None, truth: Any | None = None
) -> str:
    """Return a page that shows how an image was restored.

    Parameters
    ----------
    result : ImageResult
        The result of `bpfa.inpaint` or `bpfa.denoise`.
    picture : Picture
        The image as it was before.
    command : str, optional
        The command that produces the same result again.
    truth : array-like, optional
        The true image, if it is known. The page then shows the PSNR, and how many pixels the intervals cover.

    Returns
    -------
    str
        The page, in HTML. It needs no other file and no network.

    See Also
    --------
    bpfa.inpaint : Fill in missing pixels.
    bpfa.denoise : Remove noise.
    bpfa.report.model_report : A page about a model.

    Examples
    --------
    >>> from pathlib import Path
    >>> from bpfa import denoise
    >>> values = np.add.outer(np.arange(12.0), np.arange(10.0))
    >>> result = denoise(values, patch_size=3, n_components=4, max_steps=5, random_state=0)
    >>> image_report(result, Picture(Path("ramp.npy"), values)).startswith("<!doctype html>")
    True
    """
    result = as_arrays(result)
    model = result.model
    known = None if truth is None else Comparison.of(result, truth)
    share = float(np.mean(result.missing))
    return render(
        kind="inpainted" if share else "denoised",
        title=picture.path.name,
        facts={
            "Size": TIMES.join(map(str, picture.values.shape)),
            **({"Missing": f"{share:.1%}"} if share else {}),
            "Noise": noise_range(result.noise_std),
            **({} if result.gain is None else {"Gain": f"{noise_range(result.gain)} ({result.noise_model})"}),
            **({f"PSNR, all {known.pixels}": _decibels(known.psnr(result.image))} if known else {}),
            "Features in use": f"{model.n_components_used_} of {len(model.components_)}",
            "Training": f"{model.n_steps_:,} steps, {model.history_['seconds'][-1]:.1f} s",
        },
        comparison=_comparison(result, picture),
        uncertainty=_uncertainty(result, picture),
        noise=None,
        predictions=None,
        holes=None,
        stages=_stages(result, picture, known),
        coverage=_coverage(result, known),
        atoms=_atoms(model, result.patch_size),
        components=None,
        n_unused=len(model.components_) - model.n_components_used_,
        traces=traces(result.history, "in standard deviations of the image"),
        settings={"Patch": TIMES.join(map(str, result.patch_size)), **settings_of(model)},
        command=command,
    )


def _comparison(result: Any, picture: Picture) -> dict[str, Any]:
    """Return the image before and after, in the same shades of grey or colours."""
    axes = picture.channel_axis, picture.stack_axis
    after = frame(result.image, *axes)
    low, high = _contrast(after)
    missing = frame(np.broadcast_to(result.missing, picture.values.shape), *axes)
    missing = (missing if missing.ndim == 2 else missing.mean(axis=-1)) == 1
    before = grey(frame(picture.values, *axes), low, high, missing if missing.any() else None)
    return {
        "before": picture_uri(before),
        "after": picture_uri(grey(after, low, high)),
        "width": after.shape[1],
        "height": after.shape[0],
        "note": _what_is_shown(picture),
    }


def _stages(result: Any, picture: Picture, known: Comparison | None) -> dict[str, Any] | None:
    """Return what the dictionary and the groups have made of the image; None if there are no groups."""
    groups = group_content(result)
    if groups is None:
        return None
    axes = picture.channel_axis, picture.stack_axis
    low, high = _contrast(frame(result.image, *axes))
    images = {"Dictionary": result.dictionary_image, "Groups": result.image}
    return {
        "pictures": [
            {
                "name": name,
                "picture": picture_uri(grey(frame(image, *axes), low, high), STAGE_BYTES),
                "psnr": _decibels(known.psnr(image)) if known else "",
            }
            for name, image in images.items()
        ],
        "pixels": f"all {known.pixels}, relative to a peak of {known.peak:g}" if known else "",
        "groups": groups,
    }


def _coverage(result: Any, known: Comparison | None) -> dict[str, Any] | None:
    """Return a chart of how many pixels the intervals cover; None if the true image is not known."""
    if known is None:
        return None
    shares = known.coverage(result)
    found = dict(zip(LEVELS, shares, strict=True))
    return {
        "chart": coverage_chart(LEVELS, shares.tolist()),
        "shares": [(f"{level:.0%}", f"{found[level]:.1%}") for level in (0.8, 0.95, 0.99)],
        "pixels": known.pixels,
    }


def _contrast(image: Array) -> tuple[float, float]:
    """Return the values that are shown as black and as white."""
    low, high = np.percentile(image, (CUT_PERCENT, 100 - CUT_PERCENT))
    return float(low), float(high)


def _decibels(psnr: float) -> str:
    return f"{psnr:.2f} dB" if np.isfinite(psnr) else "exact"


def _uncertainty(result: Any, picture: Picture) -> dict[str, Any]:
    """Return a map of the standard deviation of every pixel, with its scale of colours."""
    std = frame(result.std, picture.channel_axis, picture.stack_axis)
    std = std if std.ndim == 2 else std.mean(axis=-1)
    largest = float(np.percentile(std, 99.8))
    above = "\N{GREATER-THAN OR EQUAL TO} " if std.max() > largest else ""
    return {
        "picture": picture_uri(colour_map(std, largest)),
        "width": std.shape[1],
        "height": std.shape[0],
        "colours": ", ".join(COLOURS),
        "ticks": ["0", f"{largest / 2:.3g}", f"{above}{largest:.3g}"],
        "n_from_prior": int(np.sum(result.from_prior)),
    }


def _atoms(model: Any, patch: tuple[int, int]) -> list[dict[str, Any]]:
    """Return the features in use, each as a picture of a patch."""
    energies, names = variance_shares(model), model.get_feature_names_out()
    return [
        {
            "index": index,
            "name": str(names[index]),
            "use": float(model.component_probabilities_[index]),
            "energy": float(energies[index]),
            "picture": picture_uri(atom(model.components_[index], patch)),
        }
        for index in range(min(model.n_components_used_, MOST_ATOMS))
    ]


def _what_is_shown(picture: Picture) -> str:
    """Return which part of an image the page shows, if it cannot show all of it."""
    parts = []
    if picture.stack_axis is not None:
        n_slices = picture.values.shape[picture.stack_axis]
        parts.append(f"slice {n_slices // 2 + 1} of {n_slices}")
    if picture.n_channels not in (1, 3):
        parts.append(f"the mean of {picture.n_channels} channels")
    return f"The page shows {', '.join(parts)}." if parts else ""
