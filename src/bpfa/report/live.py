"""A page that shows the latest frame of a stream: the pictures and numbers behind it."""

from __future__ import annotations

import io
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

import bpfa
from bpfa._support.optional import library
from bpfa.images.frames import Latency
from bpfa.images.result import ImageResult
from bpfa.report.pictures import MAX_SIDE, atom, colour_map, grey

__all__ = ["LivePage"]

# Number of frames whose times tell the rate; seconds between two looks at the dictionary.
RECENT, DICTIONARY_SECONDS = 30, 2.0
# Most features of the picture of the dictionary, and how many of them are in a row.
MOST_ATOMS, IN_A_ROW = 128, 16


class LivePage:
    """What the page of a stream shows. Frames are shown from one thread, and the page is asked from others.

    Parameters
    ----------
    title : str

    Examples
    --------
    >>> page = LivePage("scan")
    >>> page.state()["frames"], page.picture("frame") is None, page.html().startswith("<!doctype html>")
    (0, True, True)
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._lock = threading.Lock()
        self._state: dict[str, Any] = {"frames": 0, "ended": False}
        self._sources: dict[str, Any] = {}
        self._encoded: dict[str, tuple[int, bytes]] = {}
        self._times: deque[float] = deque(maxlen=RECENT)
        self._looked = 0.0

    def show(
        self,
        result: ImageResult,
        seen: NDArray[Any],
        latency: Latency,
        *,
        n_changes: int = 0,
        name: str = "",
        psnr: float | None = None,
    ) -> None:
        """Show a restored frame.

        Parameters
        ----------
        result : ImageResult
        seen : array
            The frame as it was scanned.
        latency : Latency
        n_changes : int
            How often the scene has changed.
        name : str
        psnr : float, optional
            In dB, if the truth is known.
        """
        now = time.monotonic()
        self._times.append(now)
        seconds = self._times[-1] - self._times[0]
        state = {
            "frames": latency.n_restored,
            "name": name,
            "rate": (len(self._times) - 1) / seconds if seconds > 0 else None,
            "median": latency.median,
            "worst": latency.worst,
            "skipped": latency.n_skipped,
            "refused": latency.n_refused,
            "changes": n_changes,
            "scanned": 1.0 - float(np.mean(result.missing)),
            "noise": float(np.max(result.noise_std)),
            "psnr": psnr,
            "ended": False,
        }
        sources: dict[str, Any] = {"frame": result.image, "seen": (seen, result.missing), "std": result.std}
        with self._lock:
            if now - self._looked > DICTIONARY_SECONDS:
                # The dictionary changes slowly, and copying it from a device takes time.
                self._looked = now
                sources["dictionary"] = (result.model.components_, result.patch_size)
            self._state, self._sources = state, self._sources | sources

    def end(self) -> None:
        """Say on the page that no more frames will come."""
        with self._lock:
            self._state = {**self._state, "ended": True}

    def state(self) -> dict[str, Any]:
        """Return the numbers of the page."""
        with self._lock:
            return dict(self._state)

    def picture(self, name: str) -> bytes | None:
        """Return the latest picture of this name as a PNG file, or None if there is none yet.

        Parameters
        ----------
        name : {"frame", "seen", "std", "dictionary"}
        """
        with self._lock:
            number, source = self._state["frames"], self._sources.get(name)
            if source is None:
                return None
            if name in self._encoded and self._encoded[name][0] == number:
                return self._encoded[name][1]
        encoded = _png(_pixels(name, source))
        with self._lock:
            self._encoded[name] = number, encoded
        return encoded

    def html(self) -> str:
        """Return the page itself, which asks for numbers and pictures a few times a second."""
        jinja2 = library("jinja2", "cli", purpose="the page needs jinja2")
        folder = Path(__file__).parent
        environment = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=True)
        css = Markup((folder / "page.css").read_text(encoding="utf-8"))
        page: str = environment.get_template("live.html").render(
            title=self.title, css=css, version=bpfa.__version__
        )
        return page


def _pixels(name: str, source: Any) -> NDArray[np.uint8]:
    """Return a picture of the page as 8 bits."""
    if name == "std":
        return colour_map(source, float(np.percentile(source, 99.8)))
    if name == "dictionary":
        return _dictionary(*source)
    values, missing = source if isinstance(source, tuple) else (source, None)
    known = values if missing is None else values[~missing]
    low, high = (float(np.percentile(known, share)) for share in (0.2, 99.8))
    return grey(np.asarray(values, dtype=np.float64), low, high, missing)


def _dictionary(components: NDArray[Any], patch_size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return the features as one picture, the most important first, with a line between them."""
    atoms = [atom(component, patch_size) for component in components[:MOST_ATOMS]]
    height, width = patch_size
    n_rows = -(-len(atoms) // IN_A_ROW)
    picture = np.full(
        (n_rows * (height + 1) + 1, IN_A_ROW * (width + 1) + 1, *atoms[0].shape[2:]), 255, np.uint8
    )
    for number, pixels in enumerate(atoms):
        row, column = divmod(number, IN_A_ROW)
        y, x = row * (height + 1) + 1, column * (width + 1) + 1
        picture[y : y + height, x : x + width] = pixels
    return picture


def _png(pixels: NDArray[np.uint8]) -> bytes:
    image = library("PIL.Image", "images", purpose="the page needs Pillow").fromarray(pixels)
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    stream = io.BytesIO()
    image.save(stream, format="PNG", compress_level=1)
    return stream.getvalue()
