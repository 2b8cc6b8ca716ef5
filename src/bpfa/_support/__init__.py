"""What every layer may use: argument checks, random numbers, whole files, optional libraries."""
