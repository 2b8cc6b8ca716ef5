"""What a posterior predicts for given rows: draws, weights, missing entries and scores."""
