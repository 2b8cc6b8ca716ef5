"""The mathematics of the model: priors, view, sums, features, posterior, bounds, marginals; no device."""
