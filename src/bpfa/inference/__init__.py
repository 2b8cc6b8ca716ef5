"""How the posterior is learned: the grid of algorithms, the one loop, the sampler, and where they start."""
