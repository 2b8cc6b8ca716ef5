"""bpfa report: writes a page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bpfa.cli.declared import takes
from bpfa.cli.messages import Messenger
from bpfa.cli.options import OUTPUT
from bpfa.cli.outputs import Outputs

__all__ = ["report"]


@takes(*OUTPUT)
def report(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model written by bpfa fit.")],
    target: Annotated[
        Path | None,
        typer.Argument(metavar="[OUT]", help="Page to write. [default: MODEL with the suffix .html]"),
    ] = None,
    **options: Any,
) -> None:
    """Write a page about a model.

    The page shows the features, how often they are used, and how the fit went. It is one file, which any
    browser opens without a network.
    """
    from bpfa import BPFA
    from bpfa.report import model_report

    messenger, outputs = Messenger.of(context), Outputs.of(context)
    target = model.with_suffix(".html") if target is None else target
    outputs.keep("MODEL", model)
    fitted = BPFA.load(model)
    page = model_report(fitted, title=model.name)
    outputs.add("OUT", target, lambda path: path.write_text(page, encoding="utf-8"))
    outputs.write()
    messenger.result("report", {"written": {"report": target}}, f"report  {target}")
