"""
Frames as they come from a microscope
=====================================

A microscope that scans a fifth of the pixels delivers frame after frame. :class:`bpfa.images.FrameRestorer`
restores each of them by a dictionary that it keeps and that goes on learning. The scene of this simulation drifts,
and is replaced by another one in the middle.
"""

# %%
# A simulated microscope
# ----------------------
# Each frame has a mask of its own. Pixels that were not scanned are not known to anybody.

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import brick, camera

import bpfa
from bpfa.images import FrameRestorer, masks

first, second = camera()[40:200, 140:300].astype(float), brick()[100:260, 100:260].astype(float)


def frames():
    """Yield twelve frames of a scene that drifts, and twelve of another one."""
    for number in range(24):
        scene = np.roll(first, number, axis=1) if number < 12 else second
        scan = masks.random(scene.shape, 0.2, seed=number)
        yield scene, np.where(scan.missing, 0.0, scene), scan.missing


# %%
# Restore them
# ------------
# The first frame is fitted from nothing; all others are restored by the dictionary that is there, after eight
# training steps. ``n_changes`` counts how often the scene has changed, after which the model learns for longer.

restorer = FrameRestorer(max_steps=200, random_state=0)
quality, covered, results = [], [], []
for truth, seen, missing in frames():
    result = restorer.restore(seen, missing)
    results.append(result)
    quality.append(bpfa.psnr(truth, result.image, missing))
    covered.append(np.mean(np.abs(result.image - truth)[missing] < 1.96 * result.std[missing]))

print(f"{restorer.latency.n_restored} frames, {restorer.n_changes} change of the scene")
print(f"95 % intervals cover {np.mean(covered):.1%} of the missing pixels")

figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
for axis, number in zip(axes, (0, 11, 12, 23), strict=True):
    axis.imshow(results[number].image, cmap="gray", vmin=0, vmax=255)
    axis.set_title(f"frame {number}: {quality[number]:.1f} dB")
    axis.axis("off")

figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
axis.plot(quality, "o-")
axis.axvline(11.5, color="0.6", linestyle=":")
axis.set(xlabel="frame", ylabel="PSNR of missing pixels (dB)")

# %%
# A frame that is still being scanned
# -----------------------------------
# Pixels can be added while the beam is on, and the picture so far can be asked for at any time.

restorer.begin(second.shape)
path = masks.random(second.shape, 0.2, seed=99)
order = np.random.default_rng(0).permutation(len(path))
for share, part in zip((5, 10, 15, 20), np.array_split(order, 4), strict=True):
    places = path.positions[part]
    restorer.add(places, second[tuple(places.T)])
    so_far = restorer.so_far()
    print(f"{share} % scanned: {bpfa.psnr(second, so_far.image, path.missing):.1f} dB")

# %%
# On a GPU a frame of 512 x 512 pixels takes a few milliseconds (see the benchmarks). ``bpfa live`` does the same on
# the command line and shows the frames in the browser; ``bpfa live picture.tif out.tif --simulate --open`` needs no
# microscope.
