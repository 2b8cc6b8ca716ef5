"""Tools for every layer: argument checks, random numbers, threads, whole files, optional libraries, bars."""
