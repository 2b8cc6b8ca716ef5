"""Run the command line in the process of the test itself."""

import json
from typing import NamedTuple

import pytest

from bpfa.cli import main


class Ran(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def document(self):
        """The one JSON object on standard output."""
        return json.loads(self.out)


def runner(capfd):
    """Return a function that runs `bpfa` with some arguments and returns its exit status and its output."""

    def run(*arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        return Ran(stop.value.code, *capfd.readouterr())

    return run


def refused(ran, *words, status=2):
    """Check that a command failed as it should: it printed one line that says why, and nothing else."""
    assert ran.status == status, ran
    assert ran.out == ""
    assert ran.err.startswith("bpfa: ")
    assert ran.err.count("\n") == 1
    for word in words:
        assert str(word) in ran.err
