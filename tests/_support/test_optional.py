"""Optional libraries: imported, or missed with a way out."""

import sys

import pytest

from bpfa._support.optional import library


def test_a_library_that_is_installed():
    assert library("os.path", "data") is __import__("os").path


def test_a_missing_library_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"h5py.*; this file needs h5py: pip install 'bpfa\[hdf5\]'$"):
        library("h5py", "hdf5")
    with pytest.raises(ImportError, match=r"^reports need it: pip install 'bpfa\[cli\]', or 'x'$"):
        library("h5py", "cli", purpose="reports need it", alternative=", or 'x'")
