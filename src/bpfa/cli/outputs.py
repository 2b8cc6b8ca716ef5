"""The files that a command writes: checked before the work begins, and all of them or none at its end."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

__all__ = ["Outputs"]


class Outputs:
    """The files that a command is to write.

    Parameters
    ----------
    force : bool
        Whether files that are there may be replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outputs = Outputs(force=False)
    ...     outputs.add("OUT", Path(folder, "a.txt"), lambda path: path.write_text("whole"))
    ...     outputs.write()
    ...     Path(folder, "a.txt").read_text()
    'whole'
    """

    def __init__(self, *, force: bool) -> None:
        self.force = force
        self._names: dict[Path, str] = {}
        self._writers: dict[Path, Callable[[Path], object]] = {}

    def claim(self, name: str, path: Path) -> None:
        """Refuse a file that could not or should not be written; for the start of a command.

        Parameters
        ----------
        name : str
            The argument that it is given by.
        path : Path
        """
        self._check(name, path)
        folder = path.parent
        if not folder.is_dir():
            raise FileNotFoundError(f"{name} {path}: no folder {folder}; create it first")
        try:
            _empty_file_beside(path).unlink()
        except OSError as error:
            raise PermissionError(f"{name} {path}: cannot be written there ({error.strerror})") from None
        for other, its_name in self._names.items():
            if other.resolve() == path.resolve():
                raise ValueError(f"{name} {path}: is {its_name} too; expected different files")
        self._names[path] = name

    def add(self, name: str, path: Path, writer: Callable[[Path], object]) -> None:
        """Say how a file is to be written: by a function of the path of a temporary file."""
        if path not in self._names:
            self.claim(name, path)
        self._writers[path] = writer

    def write(self) -> None:
        """Write all files under temporary names, and give them their own when all are whole."""
        temporary: dict[Path, Path] = {}
        placed: list[Path] = []
        try:
            for path, writer in self._writers.items():
                temporary[path] = _empty_file_beside(path)
                writer(temporary[path])
                with open(temporary[path], "rb") as file:
                    os.fsync(file.fileno())
            for path in temporary:
                # It may have come while we worked.
                self._check(self._names[path], path)
            for path, whole in temporary.items():
                if not path.exists():
                    placed.append(path)
                os.replace(whole, path)
        except BaseException:
            for path in (*temporary.values(), *placed):
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
            raise

    def _check(self, name: str, path: Path) -> None:
        if path.exists() and not path.is_file():
            raise FileExistsError(f"{name} {path}: not a plain file; expected the name of a file to write")
        if path.exists() and not self.force:
            raise FileExistsError(f"{name} {path}: exists; --force replaces it")


def _empty_file_beside(path: Path) -> Path:
    """Create a file with the suffix of `path` in its folder; unlike `tempfile`, with usual permissions."""
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    temporary.open("xb").close()
    return temporary
