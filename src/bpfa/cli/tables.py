"""bpfa fit, bpfa transform and bpfa impute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bpfa._support.progress import ProgressBar
from bpfa.cli.messages import Messenger
from bpfa.cli.options import (
    Absent,
    AlgorithmName,
    Cofactor,
    Columns,
    Components,
    Device,
    Dropout,
    Force,
    Init,
    Jobs,
    Json,
    Key,
    Layer,
    MaxEpochs,
    MaxSteps,
    MaxTime,
    Quiet,
    Seed,
    fit_settings,
)
from bpfa.cli.outputs import Outputs
from bpfa.cli.tablefiles import Table, check_table, write_table
from bpfa.data import Batch, Rows
from bpfa.data.mapped import MappedRows

__all__ = ["fit", "impute", "transform"]

Source = Annotated[
    Path, typer.Argument(metavar="IN", help="Table: .npy .npz .csv .tsv .parquet .h5 .h5ad .zarr .fcs")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model, written by bpfa fit.")]
Target = Annotated[Path, typer.Argument(metavar="OUT", help="Table to write.")]


def fit(
    context: typer.Context,
    source: Source,
    target: Annotated[Path, typer.Argument(metavar="MODEL", help="Model to write.")],
    columns: Columns = None,
    key: Key = None,
    layer: Layer = None,
    absent: Absent = None,
    cofactor: Cofactor = None,
    components: Components = None,
    algorithm: AlgorithmName = "gibbs-ssvi",
    init: Init = "auto",
    dropout: Dropout = None,
    max_epochs: MaxEpochs = None,
    max_steps: MaxSteps = None,
    max_time: MaxTime = None,
    held_out: Annotated[
        float, typer.Option(help="Share of the entries to hide from the fit and score.")
    ] = 0.0,
    patience: Annotated[
        int | None,
        typer.Option(min=1, help="End when so many held-out scores have not improved, and keep the best."),
    ] = None,
    revise: Annotated[
        bool,
        typer.Option("--revise", help="Drop, merge and add features where held-out scores improve by it."),
    ] = False,
    checkpoint: Annotated[Path | None, typer.Option(help="Save the fit here while it runs.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = "auto",
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn the features of a table."""
    from bpfa import BPFA

    messenger, outputs = Messenger(quiet=quiet, as_json=as_json), Outputs(force=force)
    outputs.claim("MODEL", target)
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume: expected --checkpoint FILE as well.")
    if checkpoint is not None:
        # A checkpoint may be hours of work.
        if checkpoint.exists() and not (resume or force):
            raise FileExistsError(
                f"--checkpoint {checkpoint}: exists; --resume goes on from it, --force does not"
            )
        Outputs(force=True).claim("--checkpoint", checkpoint)
    rows = Table.open(context).rows
    model = BPFA(**fit_settings(context), verbose=messenger.verbose)
    try:
        model.fit(rows, checkpoint=checkpoint, resume=resume)
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            messenger.note(f"bpfa: saved in {checkpoint}; --resume goes on from there")
        raise
    outputs.add("MODEL", target, model.save)
    outputs.write()

    scores = model.history_["held_out_log_likelihood"]
    # Of the model that is kept, which need not be the last one.
    kept = int(np.flatnonzero(model.history_["step"] == model.best_step_)[0])
    scored = np.flatnonzero(~np.isnan(scores[: kept + 1]))
    document = {
        "written": {"model": target},
        "rows": rows.n_rows,
        "columns": rows.n_columns,
        "noise_std": model.noise_std_,
        "active_features": model.n_components_used_,
        "features": len(model.components_),
        "steps": model.n_steps_,
        "best_step": model.best_step_,
        "stopped_by": model.stopped_by_,
        "held_out_log_likelihood": scores[scored[-1]] if scored.size else None,
        "held_out_mse": model.history_["held_out_mse"][scored[-1]] if scored.size else None,
    }
    line = (
        f"{rows.n_rows:,} x {rows.n_columns:,} · noise {model.history_['noise_std'][kept]:.3g} of a column's "
        f"deviation · {model.n_components_used_} of {len(model.components_)} features · "
        f"{model.n_steps_} steps · {messenger.seconds:.1f} s"
    )
    if scored.size:
        line += f" · held-out log-likelihood {document['held_out_log_likelihood']:.4f}"
    messenger.result("fit", document, line, f"model  {target}")


def transform(
    context: typer.Context,
    model: Model,
    source: Source,
    target: Target,
    columns: Columns = None,
    key: Key = None,
    layer: Layer = None,
    absent: Absent = None,
    cofactor: Cofactor = None,
    jobs: Jobs = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write which features each row uses.

    OUT holds the weights of the features, a row for each row: .npy, .npz (sparse), .csv, .tsv or .parquet.
    """
    messenger, outputs = Messenger(quiet=quiet, as_json=as_json), Outputs(force=force)
    outputs.claim("OUT", target)
    check_table(target)
    fitted = _load(model, jobs)
    table = Table.open(context, fitted)
    fitted.set_params(sparse_output=target.suffix.lower() == ".npz")
    with messenger.bar("transform", table.rows.n_rows) as bar:
        weights = fitted.transform(_WatchedRows(table.rows, bar))
    names = list(fitted.get_feature_names_out())
    outputs.add("OUT", target, lambda path: write_table(path, weights, names))
    outputs.write()
    document = {"written": {"weights": target}, "rows": weights.shape[0], "features": weights.shape[1]}
    line = f"{weights.shape[0]:,} rows x {weights.shape[1]} features · {messenger.seconds:.1f} s"
    messenger.result("transform", document, line, f"weights  {target}")


def impute(
    context: typer.Context,
    model: Model,
    source: Source,
    target: Target,
    std: Annotated[
        Path | None, typer.Option(help="Write how uncertain each filled entry is; 0 where one was observed.")
    ] = None,
    columns: Columns = None,
    key: Key = None,
    layer: Layer = None,
    absent: Absent = None,
    cofactor: Cofactor = None,
    jobs: Jobs = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fill in the missing entries of a table.

    OUT is .npy, .npz, .csv, .tsv or .parquet, where other columns of a table are copied. Of .h5ad it is a
    copy with layers["bpfa_imputed"], obsm["X_bpfa"], varm["bpfa_components"] and uns["bpfa"].
    """
    messenger, outputs = Messenger(quiet=quiet, as_json=as_json), Outputs(force=force)
    written = {"imputed": target} | ({} if std is None else {"std": std})
    outputs.claim("OUT", target)
    check_table(target, source)
    if std is not None:
        outputs.claim("--std", std)
        check_table(std)
    fitted = _load(model, jobs)
    table = Table.open(context, fitted)
    with messenger.bar("impute", table.rows.n_rows) as bar:
        filled, spread = fitted.impute(_WatchedRows(table.rows, bar), return_std=True)
    outputs.add("OUT", target, lambda path: table.write_filled(path, filled, fitted))
    if std is not None:
        outputs.add("--std", std, lambda path: write_table(path, spread, table.names))
    with messenger.bar("write", None):
        outputs.write()
    n_filled = int(np.count_nonzero(spread))
    document = {"written": written, "rows": filled.shape[0], "columns": filled.shape[1], "filled": n_filled}
    line = f"{n_filled:,} of {filled.size:,} entries filled in · {messenger.seconds:.1f} s"
    messenger.result("impute", document, line, *(f"{kind:>7}  {path}" for kind, path in written.items()))


def _load(path: Path, jobs: int | None) -> Any:
    from bpfa import BPFA

    return BPFA.load(path).set_params(n_jobs=jobs)


class _WatchedRows(MappedRows):
    """Rows that move a progress bar forward when they are read."""

    def __init__(self, rows: Rows, bar: ProgressBar) -> None:
        super().__init__(rows)
        self._bar = bar

    def mapped(self, batch: Batch) -> Batch:
        """Return the batch unchanged."""
        self._bar.advance(len(batch))
        return batch
