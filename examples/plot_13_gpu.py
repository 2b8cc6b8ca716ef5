"""
A GPU, if there is one
======================

With an NVIDIA card everything runs on the card: rows, local steps, sums and the posterior, and the restoration of
pictures. This program finds out whether there is a card, runs the same fit on every device that it finds, and
compares time and results. Without a card it says what is missing, and runs on the processor.
"""

# %%
# Is there a card?
# ----------------
# A device that you name is used, or an error says why it cannot be. ``bpfa doctor`` prints the same on the command
# line. The default, ``device="auto"``, takes a card if there is one, and the processor otherwise.

import logging
import time

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import camera

import bpfa

logging.basicConfig(format="%(message)s")
logging.getLogger("bpfa").setLevel(logging.INFO)  # says which device "auto" chooses

devices = ["cpu"]
try:
    bpfa.BPFA(n_components=2, max_steps=1, device="cuda").fit(np.eye(8))
    devices.append("cuda")
except RuntimeError as error:
    print(error)
print("devices:", ", ".join(devices))

# %%
# The same training on every device
# ---------------------------------
# The rows are patches of 8 x 8 pixels of a photograph with half of its pixels missing. A card works on thousands of
# rows at the same time, so a step with a large batch costs it little more than a step with a small one, whereas a
# processor takes time in proportion to the rows.

picture = camera()[:256, :256].astype(float)
missing = np.random.default_rng(0).random(picture.shape) < 0.5
patches = np.lib.stride_tricks.sliding_window_view(np.where(missing, np.nan, picture), (8, 8))
rows = patches.reshape(-1, 64)[::2]
rows = ((rows - np.nanmean(rows)) / np.nanstd(rows)).astype(np.float32)
batches, steps = (256, 1024, 4096, 16384), 5


def seconds_of_a_step(device, batch_size):
    """Return the time of one step after the first, in which a card compiles its kernels."""
    training = bpfa.train(
        rows,
        n_features=128,
        algorithm="gibbs-ssvi",
        batch_size=batch_size,
        n_steps=steps + 1,
        seed=0,
        device=device,
    )
    next(training)
    begin = time.perf_counter()
    *_, last = training
    noise = last.posterior.summary().noise_std  # waits for the card
    return (time.perf_counter() - begin) / steps, noise


figure, axis = plt.subplots(figsize=(5, 3.6), layout="constrained")
for device in devices:
    taken, noises = zip(*(seconds_of_a_step(device, size) for size in batches), strict=True)
    axis.plot(batches, 1000 * np.array(taken), "o-", label=device)
    for size, seconds, noise in zip(batches, taken, noises, strict=True):
        print(f"{device}: {size:6} rows a step, {1e6 * seconds / size:6.2f} us a row, noise {noise:.3f}")
axis.set(xlabel="rows in a step", ylabel="milliseconds a step", xscale="log", yscale="log")
axis.legend()

# %%
# Random numbers are those of the processor, so the noise that a fit finds is the same on every device but for
# rounding. On one H200 all 255,025 patches of a picture of 512 x 512 pixels take about four milliseconds; the
# benchmarks of the repository (``python -m benchmarks.gpu``) have the numbers.
#
# A picture
# ---------
# Nothing else changes. Models that were fitted on a card can be saved, and used on a machine without one.

part, holes = picture[64:160, 96:192], missing[64:160, 96:192]
for device in devices:
    begin = time.perf_counter()
    result = bpfa.inpaint(part, holes, max_steps=60, device=device, random_state=0)
    psnr = bpfa.psnr(result.image, part, where=holes)
    print(f"{device}: {psnr:.2f} dB on the missing pixels, {time.perf_counter() - begin:.1f} s")

# %%
# When does a card pay? For pictures, and for tables with many rows: a step with fewer than a thousand rows leaves
# most of a card idle. A table of a few hundred rows is fitted as fast on the processor.
