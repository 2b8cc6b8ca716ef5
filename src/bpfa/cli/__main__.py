"""Lets `python -m bpfa.cli` do the same as the program `bpfa`."""

from bpfa.cli.program import main

main()
