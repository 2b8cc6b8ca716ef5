"""
Fill in a picture, and read its uncertainty
===========================================

Four of five pixels of a photograph are thrown away. :func:`bpfa.inpaint` learns a dictionary of patches from
the remaining ones, fills in the picture, and says for every pixel how far off it may be. Because the true
picture is known here, we can check whether to believe it.
"""

# %%
# The data
# --------
# A part of the picture "camera", which comes with scikit-image. The mask is True where a pixel is missing.

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import camera

import bpfa

picture = camera()[60:220, 140:300]
missing = np.random.default_rng(0).random(picture.shape) < 0.8

# %%
# The restoration
# ---------------
# With the default settings training makes 500 steps where so few pixels are observed. Fewer are enough for a
# picture as small as this one. The values under the mask are not used.

result = bpfa.inpaint(picture, missing, max_steps=200, random_state=0)
print(f"PSNR of the missing pixels: {bpfa.psnr(result.image, picture, where=missing):.1f} dB")
print(f"refined by groups: {result.stage}, {result.n_rounds} rounds, weight {result.group_weight:.2f}")

error = np.abs(result.image.astype(float) - picture)
seen = np.where(missing, 0, picture)
panels = {
    "seen: 20 % of the pixels": (seen, "gray", 255),
    "restored": (result.image, "gray", 255),
    "standard deviation": (result.std, "magma", 50),
    "true error": (error, "magma", 50),
}
figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
for axis, (title, (values, colours, top)) in zip(axes, panels.items(), strict=True):
    axis.imshow(values, cmap=colours, vmin=0, vmax=top)
    axis.set_title(title)
    axis.axis("off")

# %%
# Edges are uncertain, sky is not: the third picture predicts the fourth.
#
# Can the standard deviation be believed?
# ---------------------------------------
# Where it is twice as large, errors should be twice as large. We sort the missing pixels by their standard
# deviation into ten groups, and compare it with the root mean square of the errors in each group.

std, wrong = result.std[missing], error[missing]
groups = np.array_split(np.argsort(std), 10)
predicted = [np.sqrt(np.mean(std[group] ** 2)) for group in groups]
found = [np.sqrt(np.mean(wrong[group] ** 2)) for group in groups]

figure, axis = plt.subplots(figsize=(4.5, 4), layout="constrained")
axis.plot([0, max(predicted)], [0, max(predicted)], color="gray", label="ideal")
axis.plot(predicted, found, "o-", label="a tenth of the pixels")
axis.set(xlabel="standard deviation (grey levels)", ylabel="root mean square error (grey levels)")
axis.legend()

inside = np.mean(wrong <= 1.96 * std)
print(f"{inside:.1%} of the missing pixels lie within 1.96 standard deviations")

# %%
# Use the standard deviation to see *where* a restoration is guesswork, and mask such pixels before you measure
# anything in the picture.
