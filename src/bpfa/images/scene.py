"""How long a model of frames should learn from each of them: longer after the scene has changed."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

__all__ = ["FrameSteps", "SceneWatch"]

# A scene has changed if the variance that the features leave unexplained is larger or smaller by this factor
# than in the frames before. That of a still scene varies by about a hundredth, but a model that was trained
# for a short time only still learns to explain more of it from frame to frame.
CHANGE = 1.25
# Number of frames whose median is what frames are compared with, and how many there must be.
REMEMBERED, FEWEST = 3, 2
# After a change, the model makes this many times as many steps with each of so many frames.
LONGER, FRAMES = 3, 10


class FrameSteps(NamedTuple):
    """What is known of the training steps on a frame."""

    noise: list[float]
    """Variance of the noise before the first step and after each of them."""
    size: float
    """Size of the steps."""


class SceneWatch:
    """Notices a change of the scene, and says how many steps the model should make with the next frame.

    A step moves the variance of the noise towards the mean squared residual of the patches of that step. The
    moves therefore tell how well the features that were learned before fit the new frame. Larger steps would
    not follow a change any faster, but more of them do.

    Parameters
    ----------
    n_steps : int
        Number of steps while the scene stays.

    Examples
    --------
    >>> watch = SceneWatch(8)
    >>> [watch.see(FrameSteps([1.0, 1.0, 1.0], 0.1)) for _ in range(3)], watch.n_steps
    ([False, False, False], 8)
    >>> watch.see(FrameSteps([1.0, 1.05, 1.1], 0.1)), watch.n_steps
    (True, 24)
    """

    def __init__(self, n_steps: int) -> None:
        self._usual_steps, self.n_changes = n_steps, 0
        self._unexplained: deque[float] = deque(maxlen=REMEMBERED)
        self._longer = 0

    @property
    def n_steps(self) -> int:
        """Number of steps with the next frame."""
        return self._usual_steps * (LONGER if self._longer else 1)

    def see(self, steps: FrameSteps) -> bool:
        """Take note of the steps on a frame, and return whether its scene is another one.

        Parameters
        ----------
        steps : FrameSteps
            Of which there is at least one.
        """
        noise = np.asarray(steps.noise)
        found = float(np.mean(noise[:-1] + np.diff(noise) / steps.size))
        self._longer = max(0, self._longer - 1)
        usual = float(np.median(self._unexplained)) if len(self._unexplained) >= FEWEST else found
        # While the model is following a change, what it leaves unexplained changes as well.
        changed = not self._longer and not usual / CHANGE < found < usual * CHANGE
        if changed:
            self.n_changes, self._longer = self.n_changes + 1, FRAMES
        if self._longer:
            self._unexplained.clear()
        else:
            self._unexplained.append(found)
        return changed
