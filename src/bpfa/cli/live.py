"""bpfa live: restores frames as they come, writes them as a stack, and shows them in the browser."""

from __future__ import annotations

import time
import warnings
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import bpfa
from bpfa._support.checks import check_integer, check_number
from bpfa.cli.declared import WrongOption, takes
from bpfa.cli.live_server import serving
from bpfa.cli.messages import Messenger
from bpfa.cli.options import LIVE, OUTPUT, command_line, fit_settings
from bpfa.cli.outputs import Outputs
from bpfa.cli.signals import INTERRUPTED, EndedBySignal, EndedWithOutput, interrupted_by_signals
from bpfa.images.files import Picture, check_target, read_image, read_mask, write_image
from bpfa.report.truth import Comparison

__all__ = ["live"]

Source = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="Folder that is being written, stack of images, or movie.")
]
Target = Annotated[Path, typer.Argument(metavar="OUT", help="Stack to write: .tif or .npy")]


@takes(*LIVE, *OUTPUT)
def live(context: typer.Context, source: Source, target: Target, **options: Any) -> None:
    """Restore frames one after another as they come, with one dictionary that goes on learning.

    SOURCE is a folder to which images are added, a stack, or a movie. With --simulate it is a picture or a
    file of a microscope, which is scanned by a mask, so that everyone can try it without a microscope. Frames
    that cannot be restored are left out with a note. Ctrl-C ends it; whatever ends it, the frames so far are
    written.
    """
    from bpfa.images.frames import FrameRestorer, FrameWarning

    messenger, outputs = Messenger.of(context), Outputs.of(context)
    given = {"source": source, "target": target, **options}
    _check_numbers(given)
    outputs.keep("SOURCE", source)
    for argument in ("mask", "model"):
        if given[argument] is not None:
            outputs.keep(f"--{argument}", given[argument])
    targets = {"OUT": target, "--std": given["std"]}
    for argument, path in targets.items():
        if path is not None:
            outputs.claim(argument, path)
            _check_stack(argument, path)
            if path.absolute().parent == source.absolute():
                raise WrongOption(f"{argument} {path}: in the folder of the frames; expected another one")
    if given["save_model"] is not None:
        outputs.claim_model("--save-model", given["save_model"])
    settings = fit_settings(context)
    # Frames have no axis of a stack, even if their source has one.
    settings.pop("stack_axis")
    model = None if given["model"] is None else bpfa.BPFA.load(given["model"])
    if model is not None:
        settings = {name: value for name, value in settings.items() if name in ("device", "n_jobs", "stride")}
    restorer = FrameRestorer(
        model, task=given["task"], learn=given["learn"], forgetting=given["forget"], **settings
    )
    frames = _frames(given)
    shown = _Shown(messenger, restorer, given)
    ended: BaseException | None = None
    with warnings.catch_warnings(), interrupted_by_signals(), shown.open():
        warnings.simplefilter("always", FrameWarning)
        warnings.showwarning = lambda message, *_, **__: messenger.note(f"bpfa: {message}")
        try:
            _restore(restorer, frames, shown, given)
        except BaseException as error:  # Whatever ends the stream, the frames so far are written.
            ended = error
        if shown.images:
            _write(outputs, given, shown, restorer, f"bpfa {bpfa.__version__}: {command_line(context)}")
            _tell(messenger, given, shown, restorer)
        elif ended is None:
            raise ValueError(f"{source}: no frame was restored; expected at least one")
        if ended is None:
            shown.linger()
    if isinstance(ended, KeyboardInterrupt) and shown.images:
        messenger.note(f"bpfa: interrupted; {target} has the {len(shown.images)} frames so far")
        raise EndedWithOutput(getattr(ended, "status", INTERRUPTED))
    if isinstance(ended, EndedBySignal):
        raise typer.Exit(ended.status)
    if ended is not None:
        raise ended


class _Shown:
    """What becomes of restored frames: they are kept for the stack, and shown on the page."""

    def __init__(self, messenger: Messenger, restorer: Any, given: dict[str, Any]) -> None:
        from bpfa.report.live import LivePage

        self.messenger, self.restorer, self.given = messenger, restorer, given
        self.page = LivePage(given["source"].name) if given["serve"] or given["open"] else None
        self.images: list[NDArray[Any]] = []
        self.stds: list[NDArray[Any]] = []
        self.psnrs: list[float] = []

    def open(self) -> ExitStack:
        """Serve the page, if it is asked for, until the block ends."""
        stack = ExitStack()
        if self.page is not None:
            address = stack.enter_context(serving(self.page, self.given["port"]))
            self.messenger.note(f"the frames are shown at {address}")
            if self.given["open"]:
                webbrowser.open(address)
        return stack

    def add(self, result: Any, frame: Any) -> None:
        """Keep a frame and show it."""
        if frame.truth is not None and result.missing.any():
            self.psnrs.append(Comparison.of(result, frame.truth).psnr(result.image))
        self.images.append(np.array(result.image))
        if self.given["std"] is not None:
            self.stds.append(np.array(result.std, dtype=np.float32))
        if self.page is not None:
            self.page.show(
                result,
                frame.values,
                self.restorer.latency,
                n_changes=self.restorer.n_changes,
                name=frame.name,
                psnr=self.psnrs[-1] if self.psnrs else None,
            )

    def linger(self) -> None:
        """Leave the page there for a while after the last frame, unless an interrupt closes it."""
        if self.page is None:
            return
        self.page.end()
        with suppress(KeyboardInterrupt):
            time.sleep(self.given["linger"])


def _restore(restorer: Any, frames: Iterator[Any], shown: _Shown, given: dict[str, Any]) -> None:
    """Restore frames until there are no more; a frame that cannot be restored is left out with a note."""
    from bpfa.images.frames import FrameWarning
    from bpfa.images.latest import LatestFrame

    latest = LatestFrame(frames) if given["skip"] else None
    for frame in latest or frames:
        if latest is not None:
            restorer.counts.n_skipped += latest.take_skipped()
        try:
            if frame.problem is not None:
                raise ValueError(frame.problem)
            result = restorer.restore(frame.values, _missing(frame, given))
        except (TypeError, ValueError) as error:
            restorer.counts.n_refused += 1
            warnings.warn(f"a frame is left out: {frame.name}: {error}", FrameWarning, stacklevel=2)
            continue
        shown.add(result, frame)
        if not given["simulate"] and given["frames"] is not None and len(shown.images) >= given["frames"]:
            return


def _missing(frame: Any, given: dict[str, Any]) -> NDArray[np.bool_] | None:
    """Return which pixels of a frame are missing: those that its file, the mask or a value marks."""
    missing: NDArray[np.bool_] | None = frame.missing
    if given["mask"] is not None:
        marked = read_mask(given["mask"], Picture(Path(frame.name), frame.values))
        missing = marked if missing is None else missing | marked
    if given["missing"] is not None and not np.isnan(given["missing"]):
        equal = np.asarray(frame.values == given["missing"])
        missing = equal if missing is None else missing | equal
    return missing


def _frames(given: dict[str, Any]) -> Iterator[Any]:
    """Return the frames of the source."""
    from bpfa.images import frame_sources

    source: Path = given["source"]
    if not source.exists():
        raise ValueError(f"{source}: no such file or folder")
    if given["simulate"]:
        picture = read_image(source).with_axes(None, given["stack_axis"])
        values = picture.values
        if picture.channel_axis is not None:
            # The mean of the channels: a grey detector, or the whole spectrum.
            mean = values.mean(axis=picture.channel_axis)
            values = mean.astype(np.float32 if picture.is_scan else values.dtype)
        simulated = frame_sources.simulated_frames(
            values,
            scan=given["scan"],
            dose=given["dose"],
            n_frames=given["frames"] or 50,
            drift=given["drift"],
            seed=given["seed"],
        )
        return frame_sources.paced(simulated, given["rate"])
    if source.is_dir() and source.suffix.lower() != ".zspy":
        return frame_sources.folder_frames(source, idle=given["idle"])
    if source.suffix.lower() in frame_sources.MOVIES:
        return frame_sources.paced(frame_sources.movie_frames(source), given["rate"])
    picture = read_image(source).with_axes(None, given["stack_axis"])
    return frame_sources.paced(frame_sources.stack_frames(picture), given["rate"])


def _check_numbers(given: dict[str, Any]) -> None:
    """Refuse numbers of the options of this command that make no sense, before anything is read."""
    check_number("idle", given["idle"], low=0.0, open_low=True)
    check_number("linger", given["linger"], low=0.0)
    check_integer("port", given["port"], low=0, high=65535)
    if given["frames"] is not None:
        check_integer("frames", given["frames"], low=1)
    if given["rate"] is not None:
        check_number("rate", given["rate"], low=0.0, open_low=True)


def _check_stack(argument: str, path: Path) -> None:
    if path.suffix.lower() not in (".tif", ".tiff", ".npy"):
        raise WrongOption(f"{argument} {path}: expected a stack, .tif or .npy")


def _write(outputs: Outputs, given: dict[str, Any], shown: _Shown, restorer: Any, note: str) -> None:
    """Write the stacks and the model."""
    stacks = {"OUT": (given["target"], shown.images), "--std": (given["std"], shown.stds)}
    for argument, (path, frames) in stacks.items():
        if path is not None:
            picture = Picture(path, np.stack(frames), stack_axis=0)
            check_target(path, picture)
            outputs.add(argument, path, lambda to, p=picture: write_image(to, p.values, p, note))  # type: ignore[misc]
    if given["save_model"] is not None:
        outputs.add("--save-model", given["save_model"], restorer.model.save)
    outputs.write()


def _tell(messenger: Messenger, given: dict[str, Any], shown: _Shown, restorer: Any) -> None:
    """Print a summary of all frames."""
    latency = restorer.latency
    document = {
        "written": {"image": given["target"], "std": given["std"], "model": given["save_model"]},
        "frames": latency.n_restored,
        "skipped": latency.n_skipped,
        "refused": latency.n_refused,
        "median_seconds": latency.median,
        "worst_seconds": latency.worst,
        "changes": restorer.n_changes,
        "psnr": shown.psnrs,
    }
    quality = f" · {shown.psnrs[-1]:.2f} dB in the last frame" if shown.psnrs else ""
    messenger.result(
        "live",
        document,
        f"{latency.n_restored} frames · {latency.n_skipped} skipped · {latency.n_refused} left out · "
        f"median {1e3 * latency.median:.1f} ms{quality}",
        f" image  {given['target']}",
    )
