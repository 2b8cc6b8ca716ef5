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

    def unexplained(self) -> float | None:
        """Return the variance that the features leave unexplained, or None if there was no step.

        Examples
        --------
        >>> FrameSteps([1.0, 1.5], 0.5).unexplained()
        2.0
        """
        noise = np.asarray(self.noise)
        return float(np.mean(noise[:-1] + np.diff(noise) / self.size)) if len(noise) > 1 else None


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

    @property
    def is_following(self) -> bool:
        """Whether the model is still following a change."""
        return self._usual_steps > 0 and self._longer > 0

    def see(self, steps: FrameSteps, *, another: bool = False) -> bool:
        """Take note of the steps on a frame, and return whether its scene is another one.

        Parameters
        ----------
        steps : FrameSteps
        another : bool
            Whether it is known to be another one.
        """
        self._longer = max(0, self._longer - 1)
        found = steps.unexplained()
        changed = another or self._differs(found)
        if changed:
            self.n_changes, self._longer = self.n_changes + 1, FRAMES
        if self._longer:
            self._unexplained.clear()
        elif found is not None:
            self._unexplained.append(found)
        return changed

    def _differs(self, unexplained: float | None) -> bool:
        """Return whether clearly more or less is left unexplained than in the frames before."""
        # While the model is following a change, what it leaves unexplained changes as well.
        if unexplained is None or self._longer or len(self._unexplained) < FEWEST:
            return False
        usual = float(np.median(self._unexplained))
        return not usual / CHANGE < unexplained < usual * CHANGE
