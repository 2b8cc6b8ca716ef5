"""A whole fit: its plan, limits and history, held-out scores, revisions of the features, and checkpoints."""
