"""The groups of like patches on the page of a restored image: their features on a coarse grid of patches."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.backends.registry import backend_of
from bpfa.images.groups import GroupFeatures
from bpfa.report.pictures import MAX_SIDE, atom, grey, picture_uri

__all__ = ["group_content"]

# The most references along one side of the picture, and the most features that are shown of a group. The
# tiles of a row of references must also fit into `MAX_SIDE`, as a wider picture would be scaled down.
MOST_REFERENCES, MOST_FEATURES = 16, 6


def group_content(result: Any) -> dict[str, Any] | None:
    """Return the features of some groups as one picture of small tiles, and where each of them is.

    Parameters
    ----------
    result : ImageResult

    Returns
    -------
    dict or None
        None if the image was not refined by groups.
    """
    groups = result.groups
    if groups is None:
        return None
    (n_slices, height, width, _), size = groups.picture.shape, groups.plan.size
    y, x = _places(height - size[0], size[0]), _places(width - size[1], size[1])
    device = result.model.settings_.device
    kernels = backend_of(device).groups.on(device)
    # The page shows the middle slice of a stack.
    found = groups.features(n_slices // 2, y, x, kernels)
    references = [
        {
            "y": group.y,
            "x": group.x,
            "count": len(group.features),
            "shares": [round(float(share), 4) for share in group.shares[:MOST_FEATURES]],
        }
        for group in found
    ]
    layout = {"patch": size, "columns": len(x), "tiles": 1 + MOST_FEATURES, "width": width, "height": height}
    return {
        "sprite": picture_uri(_sprite(found, len(x), size)),
        "data": json.dumps({**layout, "references": references}),
        "members": groups.plan.n_members,
        "n_rounds": result.n_rounds,
        "weight": result.group_weight,
    }


def _places(last: int, side: int) -> list[int]:
    """Return where reference patches begin along one axis: side by side, or further apart if there are many.

    Examples
    --------
    >>> _places(20, 8), len(_places(1000, 8))
    ([0, 10, 20], 16)
    """
    count = min(MOST_REFERENCES, last // side + 1, MAX_SIDE // ((1 + MOST_FEATURES) * side))
    return [int(place) for place in np.unique(np.linspace(0, last, count).round())]


def _sprite(found: list[GroupFeatures], n_columns: int, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return all tiles as one picture: for each reference its mean and features, from left to right."""
    means = np.stack([group.mean for group in found])
    low, high = np.percentile(means, (0.2, 99.8))
    n_channels = means.shape[1] // (size[0] * size[1])
    colours = (3,) if n_channels == 3 else ()
    blank = np.full((*size, *colours), 128, np.uint8)
    rows = []
    for start in range(0, len(found), n_columns):
        tiles = []
        for group in found[start : start + n_columns]:
            mean = group.mean.reshape(*size, n_channels)
            tiles.append(grey(mean if colours else mean.mean(axis=-1), low, high))
            tiles += [atom(feature, size) for feature in group.features[:MOST_FEATURES]]
            tiles += [blank] * max(0, MOST_FEATURES - len(group.features))
        rows.append(np.concatenate(tiles, axis=1))
    return np.concatenate(rows)
