"""The files that a command writes: checked before the work begins, and written all or none at its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import typer

from bpfa._support.files import check_writable, same_file, whole_files
from bpfa.estimator.overwriting import check_replaceable

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

    def claim_model(self, name: str, path: Path, *, way_out: str = "--force replaces it") -> None:
        """Announce a model that will be written. No file but a model is ever replaced by it, even by force.

        Parameters
        ----------
        name : str
            The argument of the command that names the file, for errors.
        path : Path
        way_out : str
            What the error says if a model is there already; if it is empty, the model may be replaced.
        """
        self._check_distinct(name, path)
        try:
            check_replaceable(path, damaged=True)
        except FileExistsError as error:
            raise FileExistsError(f"{name} {error}") from None
        replaced = Outputs(force=self.force or not way_out)
        if path.exists() and not replaced.force:
            raise FileExistsError(f"{name} {path}: exists; {way_out}")
        replaced.claim(name, path)
        self._names[path] = name

    def claim(self, name: str, path: Path) -> None:
        """Announce a file at the start of a command, and refuse it if it cannot or must not be written.

        Parameters
        ----------
        name : str
            The argument of the command that names the file, for errors.
        path : Path
        """
        self._check_distinct(name, path)
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
                try:
                    writer(temporary[path])
                except OSError as error:
                    # Nobody knows the temporary name, which is removed together with the file.
                    if str(temporary[path]) not in str(error):
                        raise
                    raise OSError(str(error).replace(str(temporary[path]), str(path))) from error
            for path in self._writers:
                # Somebody else may have created the file in the meantime.
                self._check_replaceable(self._names[path], path)

    def _check_distinct(self, name: str, path: Path) -> None:
        for other, its_name in (self._names | self._kept).items():
            if same_file(other, path):
                raise ValueError(f"{name} {path}: the same file as {its_name}; expected different files")

    def _check_replaceable(self, name: str, path: Path) -> None:
        if path.exists() and not path.is_file():
            raise FileExistsError(f"{name} {path}: not a plain file; expected the name of a file to write")
        if path.exists() and not self.force:
            raise FileExistsError(f"{name} {path}: exists; --force replaces it")
