"""How fast a model of frames should learn: slowly while the scene stays, fast after it has changed."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

__all__ = ["FrameSteps", "SceneWatch"]

# A scene has changed if the features leave this much more variance of a frame unexplained than of the frames
# before. That of a still scene varies by a few per cent.
CHANGE = 1.5
# Number of frames whose median is what frames are compared with, and how many there must be.
REMEMBERED, FEWEST = 8, 2
# After a change the step sizes are those of a new fit, t ** -DECAY.
DECAY = 0.75


class FrameSteps(NamedTuple):
    """What is known of the training steps on a frame."""

    noise: list[float]
    """Variance of the noise before the first step and after each of them."""
    size: float
    """Size of the first step."""


class SceneWatch:
    """Notices a change of the scene, and says how large the steps on the next frame should be.

    The first step on a frame moves the variance of the noise towards the mean squared residual of the patches
    of that step. The move therefore tells how well the features that were learned before fit the new frame.

    Parameters
    ----------
    forgetting : float
        Least size of steps while the scene stays.

    Examples
    --------
    >>> watch = SceneWatch(forgetting=0.1)
    >>> for _ in range(5):
    ...     watch.see(FrameSteps([1.0, 1.0], 0.1))
    >>> watch.least_step(8)
    0.1
    >>> watch.see(FrameSteps([1.0, 1.5], 0.1))
    >>> watch.n_changes, round(watch.least_step(8), 2)
    (1, 0.32)
    """

    def __init__(self, forgetting: float) -> None:
        self.forgetting, self.n_changes = forgetting, 0
        self._unexplained: deque[float] = deque(maxlen=REMEMBERED)
        self._since: int | None = None

    def least_step(self, n: int) -> float:
        """Return the least size of the n steps on the next frame."""
        if self._since is None:
            return self.forgetting
        # The size that a new fit would have in the middle of these steps.
        return float(max(self.forgetting, (self._since + (n + 1) / 2) ** -DECAY))

    def see(self, steps: FrameSteps) -> None:
        """Take note of the steps on a frame, of which there is at least one.

        Parameters
        ----------
        steps : FrameSteps
        """
        noise = steps.noise
        if self._since is not None:
            self._since += len(noise) - 1
            if self._since**-DECAY < self.forgetting:
                self._since = None
        found = noise[0] + (noise[1] - noise[0]) / steps.size
        usual = np.median(self._unexplained) if len(self._unexplained) >= FEWEST else np.inf
        if self._since is None and found > CHANGE * usual:
            self.n_changes += 1
            self._since = 0
        if self._since is not None:
            # What fitted the earlier scene is no measure of the new one.
            self._unexplained.clear()
        else:
            self._unexplained.append(found)
