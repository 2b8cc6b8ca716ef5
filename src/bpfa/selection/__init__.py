"""What is found out before a fit: number of features, noise of the columns, kind of start, defaults."""
