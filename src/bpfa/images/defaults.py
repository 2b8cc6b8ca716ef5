"""What restoration uses where the user does not choose (measured by benchmarks/image_defaults.py)."""

from __future__ import annotations

from math import ceil, sqrt

from bpfa.inference.factor_analysis import sample_size
from bpfa.inference.starts import PAIRED_COLUMNS

__all__ = ["default_dropout", "default_init", "default_patch_size", "default_steps", "default_stride"]

# Largest number of features. Features that a picture does not need stay unused.
N_COMPONENTS = 256
# Number of patches in a training step.
BATCH_SIZE = 4096
# Training step t has the step size (t + STEP_DELAY)^-STEP_DECAY.
STEP_DELAY, STEP_DECAY = 0.0, 0.75
# The posterior treats features as independent: a training step then costs a third of what it costs with joint
# features, and the restored picture is as good.
FEATURES = "factorised"
# Gibbs sweeps before a draw of a patch. There are more of them than in training, where the errors of many
# patches cancel.
BURN_IN = 15
# Number of draws from the posterior behind a restored picture.
N_DRAWS = 8
# Where less than the share FEW_OBSERVED of the pixels is observed, a single patch holds little information.
# Each training step then hides the share DROPOUT of a patch's observed pixels from its chain.
FEW_OBSERVED, DROPOUT = 1 / 3, 0.1
# Largest patch, in values, that starts from what all patches have in common; and, where pixels are missing,
# how many patches for each of its values should have a pair of values.
MOST_COMMON_VALUES, PAIRS_A_VALUE = 2048, 3
# Number of training steps, and their number where few pixels are observed.
STEPS, FEW_STEPS = 2000, 500
# Number and least size of the steps in which a dictionary learns from a noisier picture. What it learned more
# than about ten steps ago is forgotten.
RELEARNING_STEPS, RELEARNING_STEP = 150, 0.1
# Number of pixels of a patch that should be observed, and the smallest and largest width to achieve this.
OBSERVED_PIXELS, NARROW, WIDE = 50, 8, 16
# Largest number of values in a patch. A picture with so many channels that a patch would have more values
# gets narrower patches, which are still wide enough to have FEWEST_PIXELS observed pixels and are at least
# NARROWEST pixels wide.
MAX_NUMBERS, FEWEST_PIXELS, NARROWEST = 768, 4, 3
# Number of patches that should overlap at a pixel along each of the two axes.
OVERLAP = 6


def default_patch_size(height: int, width: int, n_channels: int, observed: float) -> int:
    """Return the width of a square patch: from 8 to 16, and so wide that about 50 of its pixels are observed.

    A patch wider than 8 pixels is at most a quarter as wide and as high as the picture. A picture with many
    channels gets patches so narrow that they have at most 768 values. Such patches may be narrower than 8
    pixels, but are at least 3 pixels wide, and so wide that about 4 of their pixels are observed.

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
    """Return the number of training steps: 2000, or 500 where less than a third of the pixels is observed.

    Where few pixels are observed, further steps would fit the features to the chance values of single pixels.

    Examples
    --------
    >>> default_steps(1.0), default_steps(0.2)
    (2000, 500)
    """
    return STEPS if observed >= FEW_OBSERVED else FEW_STEPS


def default_dropout(observed: float) -> float:
    """Return the share of a patch's observed pixels that each training step hides from its chain.

    The share is a tenth where less than a third of the pixels is observed, and 0 elsewhere. Features that
    must predict hidden pixels do not fit the chance values of single pixels, however long the training is.

    Examples
    --------
    >>> default_dropout(1.0), default_dropout(0.2)
    (0.0, 0.1)
    """
    return 0.0 if observed >= FEW_OBSERVED else DROPOUT


def default_init(n_columns: int, observed: float, *, noisy: bool) -> str:
    """Return how the features are initialised: "common" for noisy pictures, and "data" for all others.

    With "common", what all patches share, such as their mean, has features of its own from the start, so that
    weak texture is not mistaken for noise. In a picture without noise such features, which most patches use,
    would fit single pixels. So they would where too few patches have both pixels of a pair to tell what the
    patches share: noise would be taken for it. Patches of more than 2048 values start as "data" in any case,
    because finding what they have in common would take too long, and so do those of more than 1024 values if
    pixels are missing.

    Parameters
    ----------
    n_columns : int
        Number of values in a patch.
    observed : float
        Share of the pixels that is observed.
    noisy : bool
        Whether the picture is noisy.

    Examples
    --------
    >>> [default_init(n_columns, 1.0, noisy=True) for n_columns in (64, 9000)]
    ['common', 'data']
    >>> default_init(300, 0.5, noisy=True), default_init(507, 0.3, noisy=True)
    ('common', 'data')
    >>> default_init(64, 1.0, noisy=False)
    'data'
    """
    if not noisy or n_columns > MOST_COMMON_VALUES:
        return "data"
    n_pairs = sample_size(n_columns) * observed**2
    told = observed == 1 or (n_columns <= PAIRED_COLUMNS and n_pairs >= PAIRS_A_VALUE * n_columns)
    return "common" if told else "data"


def default_stride(size: tuple[int, int]) -> int:
    """Return the largest stride at which at least six patches overlap at a pixel along their shorter side.

    For patches less than six pixels wide it is 1.

    Examples
    --------
    >>> default_stride((8, 8)), default_stride((16, 16)), default_stride((3, 3))
    (1, 2, 1)
    """
    return max(1, min(size) // OVERLAP)
