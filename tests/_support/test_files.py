"""Files written whole: complete or absent, with usual permissions, and nothing left over."""

import os
import stat
import subprocess
import sys
import time

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


class TestLinks:
    """An output that is a symbolic link stays one; the file that it points to is replaced."""

    @pytest.mark.parametrize("there", [True, False])
    def test_links_are_followed(self, tmp_path, there):
        (tmp_path / "far").mkdir()
        target, link = tmp_path / "far" / "b.txt", tmp_path / "a.txt"
        if there:
            target.write_text("old")
        link.symlink_to("far/b.txt")
        with whole_file(link) as temporary:
            assert temporary.parent == target.parent
            temporary.write_text("new")
        assert link.is_symlink()
        assert target.read_text() == "new"
        assert os.listdir(tmp_path / "far") == ["b.txt"]
        assert sorted(os.listdir(tmp_path)) == ["a.txt", "far"]

    def test_a_failure_takes_back_the_file_and_not_the_link(self, tmp_path, monkeypatch):
        link, last = tmp_path / "a", tmp_path / "z"
        link.symlink_to("b")
        replace = os.replace

        def fails_at_the_last(source, target):
            if target == last:
                raise PermissionError
            replace(source, target)

        monkeypatch.setattr(os, "replace", fails_at_the_last)
        with pytest.raises(PermissionError), whole_files([link, last]):
            pass
        assert os.listdir(tmp_path) == ["a"]
        assert link.is_symlink()

    def test_a_link_to_itself_is_refused(self, tmp_path):
        (tmp_path / "a").symlink_to("a")
        with pytest.raises(OSError, match="a: cannot write there"):
            check_writable(tmp_path / "a")


class TestLeftovers:
    """What a killed process has left behind is removed by the next save, and nothing else is."""

    def left_by(self, folder, name="a.bpfa"):
        """Return a temporary file of a process that was killed while it wrote."""
        code = (
            "import os, sys; from bpfa._support.files import whole_file\n"
            "with whole_file(sys.argv[1]): os._exit(9)"
        )
        subprocess.run([sys.executable, "-c", code, folder / name], check=False)
        (left,) = set(folder.iterdir()) - self.known
        self.known.add(left)
        return left

    @pytest.fixture(autouse=True)
    def nothing_known(self):
        self.known = set()

    def save(self, path):
        with whole_file(path):
            pass

    def test_files_of_dead_processes_are_removed(self, tmp_path):
        left = self.left_by(tmp_path)
        assert left.name.startswith(".a.bpfa.")
        assert left.name.endswith(".part.bpfa")
        other = self.left_by(tmp_path, "b.bpfa")
        self.save(tmp_path / "a.bpfa")
        assert sorted(tmp_path.iterdir()) == sorted([other, tmp_path / "a.bpfa"])

    def test_a_temporary_file_of_a_temporary_file_is_removed(self, tmp_path):
        """A command writes its outputs whole together, and a model is written whole by itself."""
        code = (
            "import os, sys; from bpfa._support.files import whole_file\n"
            "with whole_file(sys.argv[1]) as one, whole_file(one): os._exit(9)"
        )
        subprocess.run([sys.executable, "-c", code, tmp_path / "a.bpfa"], check=False)
        assert len(os.listdir(tmp_path)) == 2
        self.save(tmp_path / "a.bpfa")
        assert os.listdir(tmp_path) == ["a.bpfa"]

    def test_files_of_living_processes_are_kept(self, tmp_path):
        with whole_file(tmp_path / "a.bpfa") as mine:
            self.save(tmp_path / "a.bpfa")
            assert mine.exists()

    def test_files_of_other_machines_are_kept_for_a_day(self, tmp_path):
        left = self.left_by(tmp_path)
        machine, *rest = left.name.removeprefix(".a.bpfa.").split("-")
        theirs = tmp_path / "-".join([".a.bpfa." + "0" * len(machine), *rest])
        left.rename(theirs)
        self.save(tmp_path / "a.bpfa")
        assert theirs.exists()
        os.utime(theirs, (time.time() - 90_000,) * 2)
        self.save(tmp_path / "a.bpfa")
        assert os.listdir(tmp_path) == ["a.bpfa"]

    def test_a_save_that_fails_removes_nothing(self, tmp_path):
        left = self.left_by(tmp_path)

        def fail():
            with whole_file(tmp_path / "a.bpfa"):
                raise OSError

        with pytest.raises(OSError):  # noqa: PT011 - nothing is said
            fail()
        assert left.exists()

    def test_files_of_users_are_kept(self, tmp_path):
        names = [
            ".a.bpfa.notes",
            ".a.bpfa.part",
            ".a.bpfa.x-y-z.part.bpfa",
            ".a.bpfa.old.part.bpfa",
            "a.part.bpfa",
        ]
        for name in names:
            (tmp_path / name).write_text("mine")
            os.utime(tmp_path / name, (0, 0))
        self.save(tmp_path / "a.bpfa")
        assert sorted(os.listdir(tmp_path)) == sorted([*names, "a.bpfa"])

    def test_long_names(self, tmp_path):
        path = tmp_path / ("ä" * 120 + ".bpfa")
        self.save(path)
        assert os.listdir(tmp_path) == [path.name]
