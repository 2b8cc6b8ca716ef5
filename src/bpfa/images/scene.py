"""How long a model of frames should learn from each of them: longer after the scene has changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["FrameSteps", "NewStart", "SceneWatch"]

# A scene has changed if the variance that the features leave unexplained is larger or smaller by this factor
# than in the frames before. That of a still scene varies by about a hundredth, but a model that was trained
# for a short time only still learns to explain more of it from frame to frame.
CHANGE = 1.25
# Number of frames whose median is what frames are compared with, and how many there must be.
REMEMBERED, FEWEST = 3, 2
# After a change, the model makes this many times as many steps with each of so many frames.
LONGER, FRAMES = 3, 10
# On a GPU, and where frames have at most so many observed pixels, there is time for this many.
SMALL, LONGER_IF_FAST = 2**15, 8
# A model that begins anew stays if the features before leave more unexplained by this factor. It has made few
# steps so far, and goes on to improve; but where both are nearly as good, the scene is of the same kind.
BETTER = 1.1


class FrameSteps(NamedTuple):
    """What is known of the training steps on a frame."""

    noise: Sequence[float]
    """Variance of the noise before the first step and after each of them, in units of the frames."""
    sizes: Sequence[float]
    """Sizes of the steps."""

    def unexplained(self, last: int = 0) -> float | None:
        """Return the variance that the features leave unexplained, or None if there was no step.

        Parameters
        ----------
        last : int
            Number of steps at the end that are looked at; 0 for all of them.

        Examples
        --------
        >>> FrameSteps([1.0, 1.5, 1.5], [0.5, 0.1]).unexplained()
        1.75
        >>> FrameSteps([1.0, 1.5, 1.5], [0.5, 0.1]).unexplained(1)
        1.5
        """
        noise = np.asarray(self.noise)
        if len(noise) < 2:
            return None
        return float(np.mean((noise[:-1] + np.diff(noise) / np.asarray(self.sizes))[-last:]))


class NewStart(NamedTuple):
    """How a model tries to begin anew with the first frame after a change of the scene."""

    n_steps: int
    """Number of steps."""
    accepts: Callable[[FrameSteps], bool]
    """Whether the model that has made these steps takes the place of the one before."""


class SceneWatch:
    """Notices a change of the scene, and says how many steps the model should make with the next frame.

    A step moves the variance of the noise towards the mean squared residual of the patches of that step. The
    moves therefore tell how well the features that were learned before fit the new frame.

    More steps follow a change faster, but only so far: features of another scene that are in use keep others
    from coming into use. With the first frame after a change, the model therefore tries to begin anew. If it
    explains the frame clearly better than the features before did, it stays; a scene of the same kind, such
    as another part of a specimen, is better explained by those.

    Parameters
    ----------
    n_steps : int
        Number of steps while the scene stays.

    Attributes
    ----------
    longer : int
        How many times as many there are after a change.

    Examples
    --------
    >>> watch = SceneWatch(8)
    >>> [watch.see(FrameSteps([1.0, 1.0], [0.1])) for _ in range(3)], watch.n_steps
    ([False, False, False], 8)
    >>> watch.see(FrameSteps([1.0, 1.05], [0.1])), watch.n_steps
    (True, 8)
    >>> watch.new_start.n_steps, watch.new_start.accepts(FrameSteps([0.5] * 25, [0.1] * 24))
    (24, True)
    >>> watch.see(FrameSteps([0.5] * 25, [0.1] * 24)), watch.n_steps, watch.new_start
    (False, 24, None)
    """

    def __init__(self, n_steps: int) -> None:
        self._usual_steps, self.n_changes = n_steps, 0
        self._unexplained: deque[float] = deque(maxlen=REMEMBERED)
        self.longer, self._longer = LONGER, 0
        self._changed_now, self._unexplained_before = False, np.inf

    @property
    def n_steps(self) -> int:
        """Number of steps with the next frame, besides those of a new start."""
        return self._usual_steps * (self.longer if self._longer and self.new_start is None else 1)

    @property
    def new_start(self) -> NewStart | None:
        """How the model tries to begin anew with the next frame, or None if it does not."""
        if not (self._changed_now and self._usual_steps):
            return None
        return NewStart(self._usual_steps * self.longer, self._explain_better)

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
        self._changed_now = changed
        if changed:
            if found is not None:
                self._unexplained_before = found
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

    def _explain_better(self, steps: FrameSteps) -> bool:
        """Return whether a new start leaves clearly less unexplained than the features before.

        These saw the frame of the change, and the new start the one after it. The last of its steps count,
        as many as the others made.
        """
        found = steps.unexplained(self._usual_steps)
        return found is not None and found * BETTER < self._unexplained_before
