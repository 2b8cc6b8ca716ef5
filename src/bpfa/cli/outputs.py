"""The files that a command writes: checked before the work begins, and written all or none at its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import typer

from bpfa._support.files import check_writable, whole_files

__all__ = ["Outputs"]


class Outputs:
    """The files that a command will write.

    Parameters
    ----------
    force : bool
        Whether files that already exist may be replaced.

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
        self._kept: dict[Path, str] = {}
        self._writers: dict[Path, Callable[[Path], object]] = {}

    @classmethod
    def of(cls, context: typer.Context) -> Outputs:
        """Return the outputs of a command, none of which is known yet."""
        return cls(force=context.params["force"])

    def keep(self, name: str, path: Path) -> None:
        """Name a file that the command reads and that none of its outputs may replace, even by force."""
        self._kept[path] = name

    def claim(self, name: str, path: Path) -> None:
        """Announce a file at the start of a command, and refuse it if it cannot or must not be written.

        Parameters
        ----------
        name : str
            The argument of the command that names the file, for errors.
        path : Path
        """
        for other, its_name in (self._names | self._kept).items():
            if other.resolve() == path.resolve():
                raise ValueError(f"{name} {path}: the same file as {its_name}; expected different files")
        self._check_replaceable(name, path)
        folder = path.parent
        if not folder.is_dir():
            raise FileNotFoundError(f"{name} {path}: no folder {folder}; create it first")
        try:
            check_writable(path)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise PermissionError(f"{name} {path}: cannot be written there ({reason})") from None
        self._names[path] = name

    def add(self, name: str, path: Path, writer: Callable[[Path], object]) -> None:
        """Add a file to those that `write` writes, with a function that writes it to a temporary path."""
        if path not in self._names:
            self.claim(name, path)
        self._writers[path] = writer

    def write(self) -> None:
        """Write all files under temporary names, and give them their own names when all are complete."""
        with whole_files(self._writers) as temporary:
            for path, writer in self._writers.items():
                writer(temporary[path])
            for path in self._writers:
                # Somebody else may have created the file in the meantime.
                self._check_replaceable(self._names[path], path)

    def _check_replaceable(self, name: str, path: Path) -> None:
        if path.exists() and not path.is_file():
            raise FileExistsError(f"{name} {path}: not a plain file; expected the name of a file to write")
        if path.exists() and not self.force:
            raise FileExistsError(f"{name} {path}: exists; --force replaces it")
