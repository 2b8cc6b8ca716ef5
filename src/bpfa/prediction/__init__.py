"""What a posterior says of rows: draws, predictions and scores."""
