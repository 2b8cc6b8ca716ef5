"""Write the picture of the README and the site, in a minute on two cores: `python -m benchmarks.picture`."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import camera

import bpfa
from experiments import ROOT

PICTURE = ROOT / "docs" / "_static" / "inpaint.jpg"
MISSING, BRIGHTEST = 0.8, 50.0


def main() -> None:
    """Restore a part of a photograph, and show it before and after, with its uncertainty."""
    truth = camera()[40:296, 96:352]
    missing = np.random.default_rng(0).random(truth.shape) < MISSING
    result = bpfa.inpaint(np.where(missing, 0, truth), missing, max_steps=300, random_state=0)
    quality = bpfa.psnr(result.image, truth, where=missing)
    inside = np.mean(np.abs(result.image.astype(float) - truth)[missing] <= 1.96 * result.std[missing])
    panels = (
        (f"before: {1 - MISSING:.0%} of the pixels", np.where(missing, 0, truth), "gray", 255.0),
        (f"after: {quality:.1f} dB", result.image, "gray", 255.0),
        ("uncertainty: standard deviation", result.std, "magma", BRIGHTEST),
    )
    figure, axes = plt.subplots(1, len(panels), figsize=(12, 4.3), layout="constrained")
    for axis, (title, values, colours, top) in zip(axes, panels, strict=True):
        axis.imshow(values, cmap=colours, vmin=0, vmax=top)
        axis.set_title(title, fontsize=15)
        axis.axis("off")
    figure.savefig(PICTURE, dpi=80, pil_kwargs={"quality": 82, "optimize": True})
    print(f"{quality:.2f} dB on the missing pixels, 95 % intervals cover {inside:.1%} of them: {PICTURE}")


if __name__ == "__main__":
    main()
