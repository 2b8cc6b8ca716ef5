"""The commands of the program bpfa: inpaint, denoise, fit, transform, impute, report, doctor and demo."""

from bpfa.cli.program import main

__all__ = ["main"]
