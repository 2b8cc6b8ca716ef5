"""`python -m bpfa.cli` is `bpfa`."""

from bpfa.cli.program import main

main()
