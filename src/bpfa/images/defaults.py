"""What restoration uses where the user does not say (see benchmarks/image_defaults.py)."""

from __future__ import annotations

from math import ceil, sqrt

from bpfa.selection.defaults import FEW_COLUMNS

__all__ = ["default_dropout", "default_init", "default_patch_size", "default_steps", "default_stride"]

# Features that a picture may have: those it does not need stay unused.
N_COMPONENTS = 256
# Rows of a step.
BATCH_SIZE = 4096
# Step t has size (t + STEP_DELAY)^-STEP_DECAY.
STEP_DELAY, STEP_DECAY = 0.0, 0.75
# Independent features: a step costs a third of one with joint features, and the picture is as good.
FEATURES = "factorised"
# Sweeps before a draw of a patch: more than in training, where the errors of many patches cancel.
BURN_IN = 15
# Draws behind a picture.
N_DRAWS = 8
# Below this share of observed pixels patches say little; and what share of those chains then do not see.
FEW_OBSERVED, DROPOUT = 1 / 3, 0.1
# Pixels of a patch that should be observed, and the narrowest and the widest patch that this may lead to.
OBSERVED_PIXELS, NARROW, WIDE = 50, 8, 16
# Numbers that a patch may have; where there are so many channels that it would have more, it is narrower, but
# so wide that a few of its pixels are observed.
MAX_NUMBERS, FEWEST_PIXELS, NARROWEST = 768, 4, 3
# Patches across a pixel, along an axis.
OVERLAP = 6


def default_patch_size(height: int, width: int, n_channels: int, observed: float) -> int:
    """Return the width of a square patch: wide enough that 50 of its pixels are observed, from 8 to 16.

    It is at most a quarter of the picture, but no less than 8. With many channels it is as wide as 768
    numbers allow, but no less than 3, and so that 4 of its pixels are observed.

    Parameters
    ----------
    height, width, n_channels : int
        Shape of the picture.
    observed : float
        Share of its pixels that is observed.

    Examples
    --------
    >>> [default_patch_size(512, 512, 1, observed) for observed in (1.0, 0.5, 0.2)]
    [8, 10, 16]
    >>> [default_patch_size(512, 512, n_channels, 0.2) for n_channels in (3, 12, 162)]
    [16, 8, 5]
    """
    wanted = min(WIDE, round(sqrt(OBSERVED_PIXELS / observed)), height // 4, width // 4)
    least = max(NARROWEST, ceil(sqrt(FEWEST_PIXELS / observed)))
    affordable = int(sqrt(MAX_NUMBERS / n_channels))
    return max(min(max(NARROW, wanted), affordable), min(least, NARROW))


def default_steps(observed: float) -> int:
    """Return the number of steps: 2000, but 500 where less than a third of the pixels is observed.

    There patches say little, and more steps let features fit what single pixels happen to be.

    Examples
    --------
    >>> default_steps(1.0), default_steps(0.2)
    (2000, 500)
    """
    return 2000 if observed >= FEW_OBSERVED else 500


def default_dropout(observed: float) -> float:
    """Return the share of a patch's observed pixels that its chain does not see in a step.

    Nothing, but a tenth where less than a third of the pixels is observed: features that have to predict
    pixels do not fit what single ones happen to be, however long they learn.

    Examples
    --------
    >>> default_dropout(1.0), default_dropout(0.2)
    (0.0, 0.1)
    """
    return 0.0 if observed >= FEW_OBSERVED else DROPOUT


def default_init(n_numbers: int, *, noisy: bool) -> str:
    """Return where the features start: as patches of the picture, or from what these have in common.

    That is for noisy pictures: what all patches have, such as their mean, has features of its own, and weak
    texture is not taken for noise. Where there is no noise, features that most patches use would fit single
    pixels. Nor is it for patches of too many numbers to look for components.

    Examples
    --------
    >>> default_init(64, noisy=True), default_init(64, noisy=False), default_init(9000, noisy=True)
    ('common', 'data', 'data')
    """
    return "common" if noisy and n_numbers <= FEW_COLUMNS else "data"


def default_stride(size: tuple[int, int]) -> int:
    """Return the stride that puts six patches across every pixel along the shorter side, or more.

    Examples
    --------
    >>> default_stride((8, 8)), default_stride((16, 16)), default_stride((3, 3))
    (1, 2, 1)
    """
    return max(1, min(size) // OVERLAP)
