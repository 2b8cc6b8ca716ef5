"""What the site is built from: the reference lists everything public, and the extensions do what they say."""

import doctest
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="no Sphinx: pip install sphinx")
DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = sorted((DOCS.parent / "examples").glob("*.py"))


@pytest.fixture
def extension(monkeypatch):
    """Import an extension of the site by its name."""
    monkeypatch.setattr(sys, "path", [str(DOCS / "_ext"), *sys.path])
    return import_module


@pytest.mark.parametrize("name", ["gallery_order", "public_names", "repository_pages", "whole_docstrings"])
def test_the_examples_of_an_extension(extension, name):
    results = doctest.testmod(extension(name))
    assert results.attempted > 0
    assert results.failed == 0


def test_the_reference_lists_every_public_name_once(extension):
    modules = extension("public_names").MODULES
    listed, module = [], ""
    for line in (DOCS / "api" / "index.md").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.match(r"   (\w+)$", line):
            listed.append(getattr(import_module(module), match[1]))
    named = [getattr(import_module(name), each) for name in modules for each in import_module(name).__all__]
    public = [value for value in named if not inspect.ismodule(value)]
    assert len(listed) == len({id(value) for value in listed})
    assert {id(value) for value in listed} == {id(value) for value in public}


def test_every_command_and_option_is_on_its_page(extension):
    page = extension("command_pages").command_page()
    for command in ("inpaint", "denoise", "fit", "transform", "impute", "report", "doctor", "demo"):
        assert f"## bpfa {command}\n" in page
    assert "| `--max-steps <int>` |" in page


def test_the_pages_of_the_repository_exist(extension):
    assert [page for page in extension("repository_pages").PAGES if not (DOCS.parent / page).is_file()] == []


def test_the_examples_of_the_gallery_are_executed_and_compile():
    assert len(EXAMPLES) >= 6
    for path in EXAMPLES:
        # Sphinx-Gallery executes only files of this name.
        assert re.match(r"plot_\d+_", path.name)
        compile(path.read_text(encoding="utf-8"), str(path), "exec")
