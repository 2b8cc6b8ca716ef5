"""How the posterior is learned: the grid of algorithms, the loop they share, the sampler, and the starts."""
