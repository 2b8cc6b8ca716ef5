"""
An image and an EELS map from HyperSpy
======================================

Signals of HyperSpy go in, and signals of the same class come out, with their axes, units and metadata. Here a
fifth of a STEM image and a third of the spectra of an EELS map are scanned; both are data that HyperSpy and
exSpy compute, so that the truth is known.
"""

# %%
# A sparse scan of a STEM image
# -----------------------------
# The beam visits a fifth of the pixels. The scan is the mask: all other pixels are missing. Small patches, few
# features and no groups keep this example short.

import warnings

import matplotlib.pyplot as plt
import numpy as np

warnings.filterwarnings("ignore", module="hyperspy|exspy")
import exspy
import hyperspy.api as hs

import bpfa
from bpfa.images import masks

truth = hs.data.atomic_resolution_image(size=160, spacing=0.22, rotation_angle=12)
noisy = truth + 0.1 * truth.data.std() * np.random.default_rng(0).normal(size=truth.data.shape)
scan = masks.line_hop(truth.data.shape, 0.2, seed=0)
print(f"dose {scan.dose:.0%} of a full scan, the beam travels {scan.travel:,.0f} pixels")

small = {
    "patch_size": 8,
    "n_components": 48,
    "max_steps": 100,
    "refine": None,
    "init": "data",
    "random_state": 0,
}
result = bpfa.denoise(noisy, scan, **small)
print(result.image, result.image.axes_manager[0].units, sep=", ")
wrong = np.sqrt(np.mean((result.image.data - truth.data)[scan.missing] ** 2)) / truth.data.std()
print(f"error at pixels that were not visited: {wrong:.3f} standard deviations of the image; noise: 0.1")

figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
shown = np.where(scan.missing, np.nan, noisy.data), result.image.data, result.std.data
for axis, values, title in zip(axes, shown, ("scanned", "restored", "standard deviation"), strict=True):
    axis.imshow(values, cmap="gray")
    axis.set_title(title)
    axis.axis("off")

# %%
# A third of the spectra of an EELS map
# -------------------------------------
# 1,600 energies are far too many to be channels of patches. They are described by the few components that
# stand out from the noise, whose maps are restored; ``noise_model="poisson"`` weighs the energies by their
# counts, as ``normalize_poissonian_noise`` does in HyperSpy.

# Spectra of manganese and iron in 50 different proportions, of which every position of the map has one.
line = exspy.data.EELS_MnFe(add_noise=False, navigation_shape=(50,)).data
y, x = np.mgrid[:24, :30]
proportion = (25 + 12 * np.sin(x / 5) + 12 * np.cos(y / 4 + x / 9)).astype(int)
clean = exspy.signals.EELSSpectrum(100 * line[proportion])
for axis, name in zip(clean.axes_manager.navigation_axes, "xy", strict=True):
    axis.name, axis.units, axis.scale = name, "nm", 0.5
energies = clean.axes_manager[-1]
energies.name, energies.units, energies.offset, energies.scale = "Energy loss", "eV", 400.0, 0.25

noisy = clean._deepcopy_with_new_data(np.random.default_rng(0).poisson(clean.data).astype(float))
visited = masks.random((24, 30), 0.33, seed=1)

restored = bpfa.denoise(noisy, visited, noise_model="poisson", **small | {"patch_size": 5})
print(restored.image)


def error(data, where):
    """Return the root mean square error at some positions."""
    return np.sqrt(np.mean((data - clean.data)[where] ** 2))


print(f"error of a measured spectrum         {error(noisy.data, ~visited.missing):.1f}")
print(f"the same position after denoising    {error(restored.image.data, ~visited.missing):.1f}")
print(f"a position that was never visited    {error(restored.image.data, visited.missing):.1f}")

# %%
# A spectrum at a position that was not visited, with its uncertainty, and what would have been measured there.

row, column = np.argwhere(visited.missing)[200]
energy = noisy.axes_manager[-1].axis
mean, std = restored.image.data[row, column], restored.std.data[row, column]
figure, axis = plt.subplots(figsize=(8, 3.6), layout="constrained")
axis.plot(energy, noisy.data[row, column], color="0.8", lw=0.7, label="would have been measured")
axis.plot(energy, clean.data[row, column], color="black", lw=1, label="truth")
axis.plot(energy, mean, color="C1", lw=1, label="restored")
axis.fill_between(energy, mean - 2 * std, mean + 2 * std, color="C1", alpha=0.3, lw=0)
axis.set(xlabel="energy loss (eV)", ylabel="counts")
axis.legend()

# %%
# What comes out is a signal of the same class, on which all of HyperSpy works. Lazy signals stay lazy. See
# :doc:`/guides/from-hyperspy`.
