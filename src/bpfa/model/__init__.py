"""The mathematics of the model: priors, views, sums, features, posterior, bounds and marginals.

Nothing here depends on a device.
"""
