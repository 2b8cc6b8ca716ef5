"""Models that a device keeps between frames, in NumPy here: they make the course of the ordinary way."""

import numpy as np
import pytest

from bpfa import psnr
from bpfa.backends.frames import FrameArrays, FrameFacts
from bpfa.backends.protocol import Workspace
from bpfa.data.patches import PatchRows
from bpfa.images import FrameRestorer, masks
from bpfa.images import live as live_module
from bpfa.images.defaults import default_stride
from bpfa.images.restore import PatchDraws, restore

SHAPE = (96, 96)
OPTIONS = {"n_components": 32, "max_steps": 100, "random_state": 0, "n_jobs": 1, "device": "cpu"}


class DeviceInNumpy:
    """A `FrameDevice` of this machine. It remembers the means in which frames were loaded."""

    def __init__(self, form, algorithm, n_features, *, n_draws, n_samples, stream):
        self.form, self.rows, self.workspace = form, form.learned, Workspace()
        self.draws = {"algorithm": algorithm, "n_draws": n_draws, "n_samples": n_samples, "stream": stream}
        self.means = []

    def place_posterior(self, posterior):
        return posterior

    def load(self, frame, missing, hidden, *, mean, scale):
        self.means.append(float(mean[0]))
        self.frame, self.missing, self.hidden, self.mean, self.scale = frame, missing, hidden, mean, scale
        observed = ~missing
        observed.ravel()[hidden] = False
        values = np.where(observed, (frame - mean) / scale, 0).astype(np.float32)
        size = self.form.learned.size
        self.rows, self.restored = (PatchRows(values, observed, size, n) for n in (1, default_stride(size)))
        seen = values[observed]
        return FrameFacts(np.array([len(seen)]), np.array([seen.mean()]), np.array([seen.std()]), 0, False)

    def restore(self, posterior, wanted, *, to_host=True):
        found = restore(self.restored, PatchDraws(posterior, **self.draws), self.restored.strips(1024))
        image, std = found.mean * self.scale + self.mean, found.std * self.scale
        errors = ((self.frame - image) / std).ravel()[self.hidden]
        image = np.where(self.missing, image, self.frame)
        nowhere = np.zeros_like(self.missing)
        return FrameArrays(image, std, self.missing, nowhere, errors, posterior.noise_std**2, 0)


class BackendInNumpy:
    frames = DeviceInNumpy


@pytest.mark.parametrize("taken", [True, False])
def test_a_change_of_scene_as_in_the_ordinary_way(taken, monkeypatch):
    """A new start is in the units of the new scene; if it is not taken, it is in the old ones again."""
    data = pytest.importorskip("skimage.data")
    scenes = [data.coins()[60:156, 100:196].astype(float)]
    y, x = np.mgrid[:96, :96]
    other = 40 + 9 * np.sign(np.sin(y / 3.0)) * np.sign(np.sin(x / 2.3))
    scenes.append(other if taken else data.gravel()[60:156, 100:196].astype(float))
    scans = [masks.random(SHAPE, 0.3, seed=seed) for seed in range(7)]
    first = FrameRestorer(**OPTIONS).restore(scenes[0], scans[0]).model
    ordinary = FrameRestorer(first, n_jobs=1, device="cpu")
    ordinary._on_device = lambda frame: None
    monkeypatch.setattr(live_module, "backend_of", lambda device: BackendInNumpy)
    kept = FrameRestorer(first, n_jobs=1, device="cpu")
    for seed, scan in enumerate(scans):
        picture = scenes[seed >= 4]
        mine, theirs = (restorer.restore(picture, scan) for restorer in (kept, ordinary))
        assert kept.n_changes == ordinary.n_changes == int(seed >= 4)
        assert mine.model.n_steps_ == theirs.model.n_steps_
        apart = psnr(picture, mine.image, scan.missing) - psnr(picture, theirs.image, scan.missing)
        assert abs(apart) < 0.2
    assert mine.model.n_steps_ == (2 * 64 if taken else 100 + 6 * 8 + 64)
    assert mine.model.posterior_.noise_std == pytest.approx(theirs.model.posterior_.noise_std, rel=0.02)
    means = kept._live.device.means
    # The frame after the change is loaded to be checked, in its own units, and if need be in the old ones.
    assert len(set(means[-3:])) == 1
    assert (means[-1] != means[0]) == taken
    assert len(set(means)) == 2
