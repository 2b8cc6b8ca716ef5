"""Files and functions stay short enough to be read: docs/design.md says how short."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "paper", "benchmarks", "experiments")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
MOST_FILE_LINES, MOST_FUNCTION_LINES = 400, 60


@pytest.mark.parametrize("folder", FOLDERS)
def test_there_are_files(folder):
    assert any(path.is_relative_to(ROOT / folder) for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short(path):
    text = path.read_text()
    assert text.count("\n") <= MOST_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node, clean=False) or ""
            n_lines = node.end_lineno - node.lineno + 1 - (docstring.count("\n") + 1 if docstring else 0)
            assert n_lines <= MOST_FUNCTION_LINES, f"{node.name} has {n_lines} lines"
