"""bpfa report: writes a page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bpfa.cli.declared import WrongOption, option, takes
from bpfa.cli.messages import Messenger
from bpfa.cli.options import BATCH, JOBS, OUTPUT, TABLE, fit_settings
from bpfa.cli.outputs import Outputs
from bpfa.cli.tablefiles import Table

__all__ = ["report"]


DATA = option(
    "source",
    list[Path] | None,
    None,
    "--data",
    help="Table, for example that of the fit: the page then shows how well the model predicts it. It can be "
    "repeated.",
)


@takes(DATA, *TABLE, *BATCH, *JOBS, *OUTPUT)
def report(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model written by bpfa fit.")],
    target: Annotated[
        Path | None,
        typer.Argument(metavar="[OUT]", help="Page to write. [default: MODEL with the suffix .html]"),
    ] = None,
    *,
    source: list[Path] | None,
    **options: Any,
) -> None:
    """Write a page about a model.

    The page shows the features, how often they are used, the noise of the columns, and how the fit went. With
    --data, it also shows how well the model predicts entries of a table, how often its intervals are right,
    and where entries are missing. It is one file, which any browser opens without a network.
    """
    from bpfa import BPFA
    from bpfa.report import model_report

    messenger, outputs = Messenger.of(context), Outputs.of(context)
    target = model.with_suffix(".html") if target is None else target
    outputs.keep("MODEL", model)
    for path in source or ():
        outputs.keep("--data", path)
    outputs.claim("OUT", target)
    _check_options_of_data(context, source)
    fitted = BPFA.load(model).set_params(**fit_settings(context))
    table = Table.open(context, fitted) if source else None
    data, batch = (None, None) if table is None else (table.rows, table.batch)
    page = model_report(fitted, data, title=model.name, batch=batch)
    outputs.add("OUT", target, lambda path: path.write_text(page, encoding="utf-8"))
    outputs.write()
    messenger.result("report", {"written": {"report": target}}, f"report  {target}")


def _check_options_of_data(context: typer.Context, source: list[Path] | None) -> None:
    """Refuse options that say how a table is read where no table is read."""
    if source:
        return
    for shared in (*TABLE, *BATCH):
        if context.params[shared.name] not in (shared.default, [], ()):
            raise WrongOption(f"--{shared.name.replace('_', '-')}: expected --data FILE as well")
