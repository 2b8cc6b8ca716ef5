"""Choices that are made before a fit: defaults, the number of features, their start, the noise of columns."""
