"""The page of the command line, written from the commands themselves before each build."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import typer

from bpfa.cli.program import app as program

PAGE = Path(__file__).parents[1] / "api" / "commands.md"
HEAD = """# Command line

`pip install 'bpfa[cli]'` installs the program `bpfa`; the extra `images` adds the formats of pictures and
`data` those of tables. This page is generated from the program: `bpfa COMMAND --help` prints the same texts.
"""


def command_page() -> str:
    """Return the page: for every command its usage, arguments and options."""
    group: Any = typer.main.get_command(program)
    parts = [HEAD]
    for name, command in group.commands.items():
        context = command.make_context(name, [], resilient_parsing=True)
        context.info_name = f"bpfa {name}"
        usage = " ".join(command.collect_usage_pieces(context))
        parts.append(f"## bpfa {name}\n\n{inspect.cleandoc(command.help or '')}\n")
        parts.append(f"```text\nbpfa {name} {usage}\n```\n")
        parts += _tables(command, context)
    parts.append(f"## Exit status\n\n{program.info.epilog}\n")
    return "\n".join(parts)


def _tables(command: Any, context: Any) -> list[str]:
    """Return a table of the arguments and one of the options."""
    rows: dict[str, list[str]] = {"argument": [], "option": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            name, text = (" ".join(part.split()).replace("|", "\\|") for part in record)
            rows[parameter.param_type_name].append(f"| `{name}` | {text} |")
    return [
        "\n".join([f"| {kind} | meaning |", "|---|---|", *lines, ""]) for kind, lines in rows.items() if lines
    ]


def write_page(app: Any, config: Any) -> None:
    """Write the page if it has changed, so that Sphinx does not read it again for nothing."""
    text = command_page()
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        PAGE.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register the page with Sphinx."""
    app.connect("config-inited", write_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
