"""Files written whole: complete or absent, with usual permissions, and nothing left over."""

import os
import stat

import pytest

from bpfa._support.files import check_writable, whole_file, whole_files


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
        temporary.write_text("complete")
        assert not path.exists()
    assert path.read_text() == "complete"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file(error, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_half():
        with whole_file(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_contents_reach_the_disk_before_the_name(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (events.append("replace"), replace(*paths)))
    with whole_files([tmp_path / "a", tmp_path / "b"]):
        pass
    # Both files, both names, and the folder that lists them.
    assert events == ["fsync", "fsync", "replace", "replace", "fsync"]


def test_an_old_file_is_not_removed_when_another_cannot_be_placed(tmp_path, monkeypatch):
    old, new, last = (tmp_path / name for name in "abc")
    old.write_text("old")
    replace = os.replace

    def fails_at_the_last(source, target):
        if target == last:
            raise PermissionError
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails_at_the_last)
    with pytest.raises(PermissionError), whole_files([old, new, last]):
        pass
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_are_those_of_any_new_file(mask, tmp_path):
    before = os.umask(mask)
    try:
        with whole_file(tmp_path / "a"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~mask


def test_paths_that_cannot_be_written(tmp_path):
    check_writable(tmp_path / "a")
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError, match="no/a: cannot write there: No such file"):
        check_writable(tmp_path / "no" / "a")
    for refusing in (check_writable, lambda path: whole_file(path).__enter__()):
        with pytest.raises(IsADirectoryError, match="a folder; expected the name of a file"):
            refusing(tmp_path)
