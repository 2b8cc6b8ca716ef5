"""Writing files whole: a reader finds the old file or the complete new one, and never a half-written one."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["check_writable", "same_file", "whole_file", "whole_files"]


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write one file whole: the block writes to a temporary path, which then replaces `path`.

    Parameters
    ----------
    path : path-like
        A file that is already there is replaced when the block ends, and is untouched if the block fails.

    Yields
    ------
    Path
        An empty file in the same folder, with the same suffix, for the block to write to.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.txt")
    ...     with whole_file(path) as temporary:
    ...         _ = temporary.write_text("complete")
    ...     path.read_text(), os.listdir(folder)
    ('complete', ['a.txt'])
    """
    path = Path(path)
    with whole_files([path]) as temporary:
        yield temporary[path]


@contextmanager
def whole_files(paths: Iterable[Path]) -> Iterator[Mapping[Path, Path]]:
    """Write several files, all of them or none: the block writes to temporary paths, which then replace them.

    Every file is on the disk before any of them takes its place. If the block fails, nothing has changed.
    If one of the files cannot be put in its place, those that are new are removed again.

    Parameters
    ----------
    paths : iterable of Path

    Yields
    ------
    mapping of Path to Path
        For each path, an empty file in the same folder, with the same suffix, for the block to write to.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = Path(folder, "a.txt"), Path(folder, "b.txt")
    ...     with contextlib.suppress(RuntimeError), whole_files([first, second]) as temporary:
    ...         _ = temporary[first].write_text("complete")
    ...         raise RuntimeError("the second file could not be computed")
    ...     os.listdir(folder)
    []
    """
    temporary: dict[Path, Path] = {}
    new: list[Path] = []
    try:
        for path in paths:
            temporary[path] = _empty_file_beside(path)
        yield temporary
        for complete in temporary.values():
            _wait_for_disk(complete)
        for path, complete in temporary.items():
            if not path.exists():
                new.append(path)
            os.replace(complete, path)
    except BaseException:
        for path in (*temporary.values(), *new):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        raise
    for folder in {path.parent for path in temporary}:
        _wait_for_disk(folder)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that cannot be written to, so that an error comes before hours of work, not after them.

    Examples
    --------
    >>> check_writable("/")
    Traceback (most recent call last):
    ...
    IsADirectoryError: /: a folder; expected the name of a file
    """
    _empty_file_beside(Path(path)).unlink()


def same_file(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two paths lead to the same file, also through links, and also if it does not exist yet.

    Examples
    --------
    >>> same_file("a.txt", "folder/../a.txt"), same_file("a.txt", "b.txt")
    (True, False)
    """
    try:
        if os.path.samefile(path, other):
            return True
    except (OSError, ValueError):
        # At least one of them does not exist, or is not a path at all.
        pass
    return os.path.realpath(path) == os.path.realpath(other)


def _empty_file_beside(path: Path) -> Path:
    """Create an empty file in the folder of `path`.

    Writers that choose a format by the name find the same suffix there. Unlike the files of `tempfile`, it
    has the permissions of any new file.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path}: a folder; expected the name of a file")
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        temporary.open("xb").close()
    except OSError as error:
        raise type(error)(error.errno, f"{path}: cannot write there: {error.strerror}") from error
    return temporary


def _wait_for_disk(path: Path) -> None:
    """Wait until a file, or the list of files of a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
