import os
import re
import stat

import pytest

from bpfa.cli.outputs import Outputs


def writes(text):
    return lambda path: path.write_text(text)


def fails(path):
    path.write_text("half")
    raise OSError("disk full")


def claimed(force, *paths):
    outputs = Outputs(force=force)
    for path in paths:
        outputs.claim("OUT", path)
    return outputs


def test_all_files_or_none(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    outputs = claimed(False, first, second)
    outputs.add("OUT", first, writes("a"))
    outputs.add("--std", second, fails)
    with pytest.raises(OSError, match="disk full"):
        outputs.write()
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_old_files_as_they_were(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("old")
    outputs = claimed(True, first, second)
    outputs.add("OUT", first, writes("new"))
    outputs.add("--std", second, fails)
    with pytest.raises(OSError, match="disk full"):
        outputs.write()
    assert first.read_text() == "old"
    assert list(tmp_path.iterdir()) == [first]


def test_a_failed_rename_takes_back_what_was_placed(tmp_path, monkeypatch):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    outputs = claimed(False, first, second)
    outputs.add("OUT", first, writes("a"))
    outputs.add("--std", second, writes("b"))
    replace = os.replace

    def once(source, target):
        if target == second:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", once)
    with pytest.raises(KeyboardInterrupt):
        outputs.write()
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_the_file_and_not_its_temporary_copy(tmp_path):
    path = tmp_path / "a.txt"
    outputs = claimed(False, path)

    def full(temporary):
        temporary.write_text("half")
        raise OSError(f"{temporary}: not written: No space left on device")

    outputs.add("OUT", path, full)
    with pytest.raises(OSError, match=rf"^{re.escape(str(path))}: not written: No space"):
        outputs.write()
    assert list(tmp_path.iterdir()) == []


def test_existing_files_need_force(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(FileExistsError, match=r"OUT .*a\.txt: exists; --force"):
        claimed(False, path)
    outputs = claimed(True, path)
    outputs.add("OUT", path, writes("new"))
    outputs.write()
    assert path.read_text() == "new"


def test_a_file_that_came_meanwhile_is_kept(tmp_path):
    path = tmp_path / "a.txt"
    outputs = claimed(False, path)
    path.write_text("theirs")
    outputs.add("OUT", path, writes("ours"))
    with pytest.raises(FileExistsError):
        outputs.write()
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        claimed(False, tmp_path / "no" / "a.txt")
    with pytest.raises(FileExistsError, match="not a plain file"):
        claimed(True, tmp_path)
    with pytest.raises(PermissionError, match=r"OUT /proc/a\.txt: cannot be written"):
        claimed(False, type(tmp_path)("/proc/a.txt"))
    with pytest.raises(FileExistsError, match="not a plain file"):
        claimed(True, type(tmp_path)("/dev/null"))
    (tmp_path / "b").mkdir()
    with pytest.raises(ValueError, match="the same file as OUT"):
        claimed(False, tmp_path / "a.txt", tmp_path / "b" / ".." / "a.txt")


def test_permissions_are_the_usual_ones(tmp_path):
    before = os.umask(0o022)
    try:
        outputs = claimed(False, tmp_path / "a.txt")
        outputs.add("OUT", tmp_path / "a.txt", writes("a"))
        outputs.write()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644
