"""
Remove noise, next to other methods
===================================

:func:`bpfa.denoise` learns the level of the noise along with everything else. The methods of scikit-image need
it, or a weight that depends on it, and so does BM3D; here they get the true level, so the comparison is in their
favour.
"""

# %%
# The data
# --------
# A part of the picture "camera" with Gaussian noise of 25 grey levels.

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import camera
from skimage.restoration import denoise_nl_means, denoise_tv_chambolle

import bpfa

NOISE = 25.0
picture = camera()[60:220, 140:300].astype(float)
noisy = picture + np.random.default_rng(0).normal(scale=NOISE, size=picture.shape)

# %%
# The methods
# -----------
# The weight of total variation has no natural value, so we give it the best of a few. That needs the true
# picture, which you would not have. BM3D takes part if it is installed (``pip install bm3d``, which is free for
# non-commercial use only).

result = bpfa.denoise(noisy, max_steps=500, random_state=0)
non_local = denoise_nl_means(
    noisy / 255, patch_size=5, patch_distance=6, h=0.8 * NOISE / 255, sigma=NOISE / 255, fast_mode=True
)
variation = [denoise_tv_chambolle(noisy / 255, weight=weight) for weight in (0.05, 0.08, 0.12, 0.18)]

restored = {
    "noisy": noisy,
    "total variation": 255 * max(variation, key=lambda image: bpfa.psnr(255 * image, picture)),
    "non-local means": 255 * non_local,
}
try:
    import bm3d
except ImportError:
    print("BM3D is not installed")
else:
    restored["BM3D"] = bm3d.bm3d(noisy, sigma_psd=NOISE)
restored["bpfa"] = result.image
print(f"noise: {NOISE} added, {result.noise_std:.1f} found")

figure, axes = plt.subplots(1, len(restored), figsize=(3 * len(restored), 3.4), layout="constrained")
for axis, (name, image) in zip(axes, restored.items(), strict=True):
    psnr = bpfa.psnr(image, picture)
    print(f"{name:<16} {psnr:.2f} dB")
    axis.imshow(image, cmap="gray", vmin=0, vmax=255)
    axis.set_title(f"{name}: {psnr:.1f} dB")
    axis.axis("off")

# %%
# The benchmarks of the repository compare nineteen pictures in seven tasks, BM3D included
# (``python -m benchmarks.images``).
#
# What was removed
# ----------------
# The best test without a true picture: what was taken away should look like noise. Structure in this picture is
# structure that the restoration has lost.

figure, axes = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
axes[0].imshow(noisy - result.image, cmap="gray", vmin=-75, vmax=75)
axes[0].set_title("what was removed")
axes[1].imshow(result.std, cmap="magma", vmin=0)
axes[1].set_title("standard deviation of what is left")
for axis in axes:
    axis.axis("off")
