import numpy as np


def gradient(f, point, relative_step=1e-5):
    """Return the gradient of a scalar function of an array by central differences, entry by entry."""
    slope = np.empty(point.shape)
    for i in np.ndindex(point.shape):
        h = np.zeros(point.shape)
        h[i] = relative_step * max(abs(point[i]), 1e-2)
        slope[i] = (f(point + h) - f(point - h)) / (2 * h[i])
    return slope
