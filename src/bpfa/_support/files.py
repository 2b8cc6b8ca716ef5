"""Writing files whole: a reader finds the old file or the complete new one, and never a half-written one."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

__all__ = ["check_writable", "same_file", "whole_file", "whole_files"]

# A temporary file is named after its target, the machine and the process that writes it, and a random number.
# The name of the target is cut, because a file system limits the length of names.
MOST_CHARACTERS = 40
TEMPORARY = re.compile(r"(?P<machine>[0-9a-f]{8})-(?P<process>[0-9]+)-[0-9a-f]{8}\.part(\..*)?")
# A temporary file that nobody has written to for this many seconds was left behind.
OLD = 24 * 3600


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write one file whole: the block writes to a temporary path, which then replaces `path`.

    Parameters
    ----------
    path : path-like
        A file that is already there is replaced when the block ends, and is untouched if the block fails. If
        the path is a symbolic link, it stays one, and the file that it points to is replaced. What killed
        processes have left behind when they wrote the same file is removed.

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
    targets: dict[Path, Path] = {}
    temporary: dict[Path, Path] = {}
    new: list[Path] = []
    try:
        for path in paths:
            targets[path] = _target(path)
            temporary[path] = _empty_file_beside(targets[path])
        yield temporary
        for complete in temporary.values():
            _wait_for_disk(complete)
        for path, target in targets.items():
            if not target.exists():
                new.append(target)
            os.replace(temporary[path], target)
    except BaseException:
        for path in (*temporary.values(), *new):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        raise
    for folder in {target.parent for target in targets.values()}:
        _wait_for_disk(folder)
    for target in targets.values():
        _remove_leftovers(target)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that cannot be written to, so that an error comes before hours of work, not after them.

    Examples
    --------
    >>> check_writable("/")
    Traceback (most recent call last):
    ...
    IsADirectoryError: /: a folder; expected the name of a file
    """
    _empty_file_beside(_target(Path(path))).unlink()


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


def _target(path: Path) -> Path:
    """Return the file that a path leads to, through symbolic links; the file need not exist."""
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, f"{path}: cannot write there: {os.strerror(errno.ELOOP)}")
    return target


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files for this path that were left behind: by processes that are gone, or long ago."""
    # The new file is complete. Whatever goes wrong here is not worth an error.
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.name.startswith(_beginning(path)) and entry.is_file(follow_symlinks=False):
                found = TEMPORARY.fullmatch(entry.name.removeprefix(_beginning(path)))
                if found and (_is_gone(found) or time.time() > entry.stat().st_mtime + OLD):
                    with contextlib.suppress(OSError):
                        os.unlink(entry)


def _beginning(path: Path) -> str:
    """Return how the names of temporary files for this path begin."""
    # A temporary file may itself be written whole. Its temporary files are named after the same target.
    nested = re.fullmatch(rf"(\..*\.){TEMPORARY.pattern}", path.name)
    return f".{path.name[:MOST_CHARACTERS]}." if nested is None else nested[1]


def _is_gone(temporary: re.Match[str]) -> bool:
    """Return whether the process that wrote a temporary file surely does not exist any more."""
    # A process of another machine, with which this one shares the folder, cannot be asked for. On Windows
    # signal 0 would end a process.
    if temporary["machine"] != _machine() or os.name != "posix":
        return False
    try:
        os.kill(int(temporary["process"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


@cache
def _machine() -> str:
    """Return a name of this machine, or of this container, in which numbers of processes mean the same."""
    facts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
        facts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:8]


def _empty_file_beside(path: Path) -> Path:
    """Create an empty file in the folder of `path`.

    Writers that choose a format by the name find the same suffix there. Unlike the files of `tempfile`, it
    has the permissions of any new file.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path}: a folder; expected the name of a file")
    unique = f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    # Of a compressed file the suffix has two parts, such as .csv.gz.
    suffix = "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix
    temporary = path.with_name(f"{_beginning(path)}{unique}.part{suffix}")
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
