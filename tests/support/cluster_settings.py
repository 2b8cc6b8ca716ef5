"""The settings of the fits in the tests of clusters."""

FIT = {"n_components": 5, "random_state": 0, "max_steps": 40, "batch_size": 2048}
