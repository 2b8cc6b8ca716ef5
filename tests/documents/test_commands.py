"""The commands on the pages exist, with the options that are shown, and every block has a language."""

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="no typer: pip install 'bpfa[cli]'")
import typer

from bpfa.cli.program import app

ROOT = Path(__file__).parents[2]
WRITTEN = ("_build", "api", "gallery", "repository")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"] + [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if page.relative_to(ROOT / "docs").parts[0] not in WRITTEN
]
COMMANDS = typer.main.get_command(app).commands
# What a block of code may be called: programs, which other tests run, commands, and text.
LANGUAGES = {"python", "pycon", "shell", "text", "cpp", "toml", "yaml", "make", "matlab"}


def commands_of(text):
    """Return the lines that begin with bpfa in indented blocks and in blocks of shell."""
    fenced = "\n".join(re.findall(r"```shell\n(.*?)```", text, flags=re.DOTALL))
    indented = "\n".join(
        re.findall(r"^    (bpfa .*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    )
    inline = "\n".join(re.findall(r"`(bpfa [a-z]+ [^`\n]+)`", text))
    lines = "\n".join((fenced, indented, inline)).splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("bpfa ")]


def problem(words):
    """Return what is wrong with a command, or None."""
    name = words[1]
    if name.startswith("-") or name == "COMMAND":
        return None
    if name not in COMMANDS:
        return f"no command {name}"
    known = {flag for option in COMMANDS[name].params for flag in (*option.opts, *option.secondary_opts)} | {
        "--help"
    }
    unknown = [word for word in words[2:] if re.match(r"--[a-z]", word) and word.split("=")[0] not in known]
    return f"{name} has no {', '.join(unknown)}" if unknown else None


def test_the_commands_on_the_pages_exist():
    shown = {page: commands_of(page.read_text(encoding="utf-8")) for page in PAGES}
    assert sum(map(len, shown.values())) > 20
    wrong = {str(page.relative_to(ROOT)): found for page, commands in shown.items()
             if (found := [text for words in commands if (text := problem(words))])}  # fmt: skip
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_has_a_language(page):
    fences = re.findall(r"^(?:`{3,}|:{3,})(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    opened = [name for name in fences if name]
    assert [name for name in opened if name not in LANGUAGES and not name.startswith("{")] == []


def test_what_does_not_exist_is_noticed():
    assert problem(["bpfa", "fit", "a.csv", "m.bpfa", "--held-out", "0.1"]) is None
    assert problem(["bpfa", "ft"]) == "no command ft"
    assert problem(["bpfa", "fit", "--bogus"]) == "fit has no --bogus"
    assert commands_of("    bpfa fit a b\n```shell\nbpfa doctor  # what\nls\n```\n`bpfa demo --table`") == [
        ["bpfa", "doctor"],
        ["bpfa", "fit", "a", "b"],
        ["bpfa", "demo", "--table"],
    ]
