"""A whole fit: its limits, history, held-out scores, revisions of the features and checkpoints."""
