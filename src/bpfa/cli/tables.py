"""bpfa fit, bpfa transform and bpfa impute: the commands for tables."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bpfa._support.progress import ProgressBar
from bpfa.cli.declared import WrongOption, takes
from bpfa.cli.messages import Messenger
from bpfa.cli.options import FIT, JOBS, OUTPUT, TABLE, fit_settings
from bpfa.cli.outputs import Outputs
from bpfa.cli.signals import EndedBySignal, interrupted_by_signals
from bpfa.cli.tablefiles import Table, check_table
from bpfa.data import Batch, Rows
from bpfa.data.mapped import MappedRows
from bpfa.estimator.overwriting import saved_steps
from bpfa.fitting.checkpoint import Checkpoint

__all__ = ["fit", "impute", "transform"]

Source = Annotated[
    list[Path],
    typer.Argument(
        metavar="IN...",
        help="One or more tables: .npy .npz .csv .tsv .csv.gz .tsv.gz .parquet .h5 .h5ad .zarr .fcs",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model written by bpfa fit.")]
Target = Annotated[Path, typer.Argument(metavar="OUT", help="Table to write.")]

Std = Annotated[
    Path | None,
    typer.Option(help="Write the standard deviation of each filled entry, and 0 for observed entries."),
]


@takes(*TABLE, *FIT, *OUTPUT)
def fit(
    context: typer.Context,
    source: Source,
    target: Annotated[Path, typer.Argument(metavar="MODEL", help="Model to write.")],
    *,
    checkpoint: Path | None,
    checkpoint_every: float | None,
    resume: bool,
    force: bool,
    with_rows: bool,
    **options: Any,
) -> None:
    """Learn the features of a table."""
    from bpfa import BPFA

    messenger, outputs = Messenger.of(context), Outputs.of(context)
    for path in source:
        outputs.keep("IN", path)
    outputs.claim_model("MODEL", target)
    saving = _checkpoint(outputs, checkpoint, checkpoint_every, resume=resume)
    rows = Table.open(context).rows
    model = BPFA(**fit_settings(context), verbose=messenger.verbose)
    if saving is not None and not resume:
        _start_again(Path(saving.path))
    try:
        with interrupted_by_signals():
            model.fit(rows, checkpoint=saving, resume=resume)
    except KeyboardInterrupt as interrupt:
        if checkpoint is not None and hasattr(model, "n_steps_"):
            outputs.add("MODEL", target, partial(model.save, with_rows=with_rows))
            messenger.note(_kept_of_interrupted(model.n_steps_, checkpoint, target, outputs))
        if isinstance(interrupt, EndedBySignal):
            raise typer.Exit(interrupt.status) from None
        raise
    outputs.add("MODEL", target, partial(model.save, with_rows=with_rows))
    outputs.write()
    document = {"written": {"model": target}, "rows": rows.n_rows, "columns": rows.n_columns}
    document |= _facts_of_fit(model)
    line = (
        f"{rows.n_rows:,} x {rows.n_columns:,} · noise {_kept_step(model, 'noise_std'):.3g} of a column's "
        f"standard deviation · {model.n_components_used_} of {len(model.components_)} features · "
        f"{model.n_steps_} steps · {messenger.seconds:.1f} s"
    )
    if document["held_out_log_likelihood"] is not None:
        line += f" · held-out log-likelihood {document['held_out_log_likelihood']:.4f}"
    messenger.result("fit", document, line, f"model  {target}")


def _kept_of_interrupted(n_steps: int, checkpoint: Path, target: Path, outputs: Outputs) -> str:
    """Return where the steps of an interrupted fit are: in its checkpoint, or else in MODEL, written now.

    The disk of the checkpoint may be full when that of MODEL is not.
    """
    if saved_steps(checkpoint) == n_steps:
        return f"bpfa: saved in {checkpoint}; --resume continues from there"
    try:
        outputs.write()
    except OSError as error:
        return f"bpfa: the {n_steps} steps of the fit are lost; MODEL was not saved either ({error})"
    return f"bpfa: not finished; the model after {n_steps} steps is in {target}"


def _checkpoint(
    outputs: Outputs, path: Path | None, every_minutes: float | None, *, resume: bool
) -> Checkpoint | None:
    """Return the checkpoint, unless it cannot be written or would overwrite hours of work by mistake."""
    if path is None:
        for name, given in (("--resume", resume), ("--checkpoint-every", every_minutes is not None)):
            if given:
                raise WrongOption(f"{name}: expected --checkpoint FILE as well")
        return None
    way_out = "" if resume else "--resume continues from it, --force starts again"
    outputs.claim_model("--checkpoint", path, way_out=way_out)
    try:
        return Checkpoint(path, every_minutes=every_minutes)
    except ValueError as error:
        raise WrongOption(f"--checkpoint-every {str(error).removeprefix('every_minutes=')}") from None


def _start_again(path: Path) -> None:
    """Prepare for a fit that replaces the checkpoint of an earlier one, as --force asks."""
    warnings.filterwarnings("ignore", message="checkpoint=.*which this fit will replace")
    if path.exists() and saved_steps(path) is None:
        # It is a damaged model, or empty. The library would refuse to replace a damaged one.
        path.resolve().unlink()


def _facts_of_fit(model: Any) -> dict[str, Any]:
    """Return what the result of `bpfa fit` says about a fitted model."""
    return {
        "noise_std": model.noise_std_,
        "active_features": model.n_components_used_,
        "features": len(model.components_),
        "steps": model.n_steps_,
        "best_step": model.best_step_,
        "stopped_by": model.stopped_by_,
        "held_out_log_likelihood": _kept_step(model, "held_out_log_likelihood"),
        "held_out_mse": _kept_step(model, "held_out_mse"),
    }


def _kept_step(model: Any, name: str) -> float | None:
    """Return an entry of the history at the step whose model was kept, which need not be the last one.

    Scores are not computed at every step; the last one up to the kept step counts. The result is None if
    there is no such score.
    """
    values = model.history_[name][model.history_["step"] <= model.best_step_]
    taken = values[~np.isnan(values)]
    return float(taken[-1]) if taken.size else None


@takes(*TABLE, *JOBS, *OUTPUT)
def transform(context: typer.Context, model: Model, source: Source, target: Target, **options: Any) -> None:
    """Write which features each row uses.

    OUT holds the weights of the features, one line for each row: .npy, .npz (sparse), .csv, .tsv, .csv.gz,
    .tsv.gz or .parquet. Text files and .parquet also hold the names of the rows, if there are any.
    """
    messenger, outputs = Messenger.of(context), Outputs.of(context)
    outputs.keep("MODEL", model)
    for path in source:
        outputs.keep("IN", path)
    outputs.claim("OUT", target)
    check_table(target)
    fitted = _load(model, context)
    table = Table.open(context, fitted)
    fitted.set_params(sparse_output=target.suffix.lower() == ".npz")
    with messenger.bar("transform", table.rows.n_rows) as bar:
        weights = fitted.transform(_WatchedRows(table.rows, bar))
    names = list(fitted.get_feature_names_out())
    outputs.add("OUT", target, lambda path: table.write(path, weights, names, own_names=True))
    outputs.write()
    document = {"written": {"weights": target}, "rows": weights.shape[0], "features": weights.shape[1]}
    line = f"{weights.shape[0]:,} rows x {weights.shape[1]} features · {messenger.seconds:.1f} s"
    messenger.result("transform", document, line, f"weights  {target}")


@takes(*TABLE, *JOBS, *OUTPUT)
def impute(
    context: typer.Context, model: Model, source: Source, target: Target, std: Std = None, **options: Any
) -> None:
    """Fill in the missing entries of a table.

    OUT is .npy, .npz, .csv, .tsv, .csv.gz, .tsv.gz or .parquet; names of rows, and columns that were not
    used, are copied from table to table. A text file keeps its separator and its decimal commas. If both
    files are .h5ad, OUT is a copy of IN with layers["bpfa_imputed"], obsm["X_bpfa"],
    varm["bpfa_components"] and uns["bpfa"].
    """
    messenger, outputs = Messenger.of(context), Outputs.of(context)
    written = {"imputed": target} | ({} if std is None else {"std": std})
    outputs.keep("MODEL", model)
    outputs.claim("OUT", target)
    check_table(target, source[0] if len(source) == 1 else None)
    if std is not None:
        outputs.claim("--std", std)
        check_table(std)
    fitted = _load(model, context)
    table = Table.open(context, fitted)
    with messenger.bar("impute", table.rows.n_rows) as bar:
        watched = _WatchedRows(table.rows, bar)
        filled, spread = fitted.impute(watched, return_std=True)
    outputs.add("OUT", target, lambda path: table.write_filled(path, filled, fitted))
    if std is not None:
        outputs.add("--std", std, lambda path: table.write(path, spread, table.rows.column_names))
    with messenger.bar("write", None):
        outputs.write()
    n_filled = watched.n_missing - int(np.isnan(filled).sum())
    document = {"written": written, "rows": filled.shape[0], "columns": filled.shape[1], "filled": n_filled}
    line = f"{n_filled:,} of {filled.size:,} entries filled in · {messenger.seconds:.1f} s"
    messenger.result("impute", document, line, *(f"{kind:>7}  {path}" for kind, path in written.items()))


def _load(path: Path, context: typer.Context) -> Any:
    """Return a saved model with the settings of this command."""
    from bpfa import BPFA

    return BPFA.load(path).set_params(**fit_settings(context))


class _WatchedRows(MappedRows):
    """Rows that move a progress bar forward when they are read."""

    def __init__(self, rows: Rows, bar: ProgressBar) -> None:
        super().__init__(rows)
        self._bar, self.n_missing = bar, 0

    def mapped(self, batch: Batch) -> Batch:
        """Return the batch unchanged."""
        self._bar.advance(len(batch))
        self.n_missing += int(np.count_nonzero(~batch.observed))
        return batch
