"""The report of a restored image."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa.images.files import Picture
from bpfa.report.page import energy, noise_range, render, settings_of, traces
from bpfa.report.pictures import COLOURS, atom, colour_map, frame, grey, picture_uri

__all__ = ["image_report"]

# The darkest and brightest share of the pixels may be cut off, so that a few do not decide the rest.
CUT = 0.2
# Features in use that a page shows.
MOST_ATOMS = 512
TIMES = " \N{MULTIPLICATION SIGN} "


def image_report(
    result: Any,
    picture: Picture,
    *,
    patch_size: tuple[int, int] | None = None,
    command: str | None = None,
) -> str:
    """Return a page of what was done to an image.

    Parameters
    ----------
    result : ImageResult
        Of `bpfa.inpaint` or `bpfa.denoise`.
    picture : Picture
        As it was before.
    patch_size : pair of int, optional
        Height and width of a patch; by default that of the result.
    command : str, optional
        What to run to do it again.
    """
    axes = (picture.channel_axis, picture.stack_axis)
    after = frame(result.image, *axes)
    low, high = np.percentile(after, (CUT, 100 - CUT))
    missing = frame(np.broadcast_to(result.missing, picture.values.shape), *axes)
    missing = (missing if missing.ndim == 2 else missing.mean(axis=-1)) == 1
    before = grey(frame(picture.values, *axes), low, high, missing if missing.any() else None)
    std = frame(result.std, *axes)
    std = std if std.ndim == 2 else std.mean(axis=-1)
    largest = float(np.percentile(std, 99.8))
    above = "\N{GREATER-THAN OR EQUAL TO} " if std.max() > largest else ""
    model = result.model
    patch = patch_size or result.patch_size
    share = float(np.mean(result.missing))
    return render(
        kind="inpainted" if share else "denoised",
        title=picture.path.name,
        facts={
            "Size": TIMES.join(map(str, picture.values.shape)),
            **({"Missing": f"{share:.1%}"} if share else {}),
            "Noise": noise_range(result.noise_std),
            "Features in use": f"{model.n_components_used_} of {len(model.components_)}",
            "Training": f"{model.n_steps_:,} steps, {model.history_['seconds'][-1]:.1f} s",
        },
        comparison={
            "before": picture_uri(before),
            "after": picture_uri(grey(after, low, high)),
            "width": after.shape[1],
            "height": after.shape[0],
            "note": _what_is_shown(picture),
        },
        uncertainty={
            "picture": picture_uri(colour_map(std, largest)),
            "width": std.shape[1],
            "height": std.shape[0],
            "colours": ", ".join(COLOURS),
            "ticks": ["0", f"{largest / 2:.3g}", f"{above}{largest:.3g}"],
            "n_from_prior": int(np.sum(result.from_prior)),
        },
        atoms=_atoms(model, patch),
        components=None,
        n_unused=len(model.components_) - model.n_components_used_,
        traces=traces(result.history, "in deviations of the image"),
        settings={"Patch": TIMES.join(map(str, patch)), **settings_of(model)},
        command=command,
    )


def _atoms(model: Any, patch: tuple[int, int]) -> list[dict[str, Any]]:
    """Return the features in use as pictures of a patch."""
    energies = energy(model)
    return [
        {
            "index": index,
            "use": float(model.component_probabilities_[index]),
            "energy": float(energies[index]),
            "picture": picture_uri(atom(model.components_[index], patch)),
        }
        for index in range(min(model.n_components_used_, MOST_ATOMS))
    ]


def _what_is_shown(picture: Picture) -> str:
    """Return in words what a page cannot show of an image."""
    parts = []
    if picture.stack_axis is not None:
        n_slices = picture.values.shape[picture.stack_axis]
        parts.append(f"slice {n_slices // 2 + 1} of {n_slices}")
    if picture.n_channels not in (1, 3):
        parts.append(f"the mean of {picture.n_channels} channels")
    return f"Shown is {', '.join(parts)}." if parts else ""
