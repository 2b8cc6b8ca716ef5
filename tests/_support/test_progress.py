"""Progress bars: seen in a terminal, and silent everywhere else."""

import sys
from io import StringIO

import pytest
from rich.console import Console

from bpfa._support.progress import open_bar, tracked


def terminal():
    return Console(file=StringIO(), force_terminal=True, width=100)


def test_a_bar_in_a_terminal():
    console = terminal()
    with open_bar("reading", 4, text="first", console=console) as bar:
        assert bar.drawn
        bar.update(2, "halfway")
        bar.advance(2)
    shown = console.file.getvalue()
    assert "reading" in shown
    assert "halfway" in shown
    assert "%" not in shown


def test_a_clock_where_the_end_is_not_known():
    console = terminal()
    with open_bar("writing", None, console=console):
        pass
    assert "0:00:00" in console.file.getvalue()


def test_percentage():
    console = terminal()
    with open_bar("restoring", 2, percentage=True, console=console) as bar:
        bar.advance(2)
    assert "100%" in console.file.getvalue()


def test_silent_in_a_pipe(capfd):
    with open_bar("reading", 2, text="first") as bar:
        assert not bar.drawn
        bar.advance()
        bar.update(2, "last")
    assert list(tracked("abc", "reading")) == ["a", "b", "c"]
    assert capfd.readouterr() == ("", "")


def test_a_hidden_bar_does_not_need_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    assert list(tracked([1, 2], "reading", shown=False)) == [1, 2]
    with pytest.raises(ImportError, match=r"progress bar with rich: pip install 'bpfa\[progress\]'"):
        list(tracked([1, 2], "reading"))
