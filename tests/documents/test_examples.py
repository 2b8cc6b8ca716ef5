"""The examples on the pages of the documentation run as they stand, one after the other on each page."""

import doctest
import re
import tomllib
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bpfa

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Notes of experiments and generated pages have no examples that a reader would run.
PAGES = [ROOT / "README.md"] + [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.relative_to(DOCS).parts[0] not in ("_build", "gallery", "notes", "repository")
]
# A block may be preceded by a comment, which readers do not see: <!-- not run: it needs a GPU -->. Blocks
# with the comment <!-- needs: mofapy2 --> are run where the library is installed.
BLOCKS = re.compile(
    r"(?:<!-- (?:not run: (?P<reason>[^\n]+)|needs: (?P<library>\w+)) -->\n+)?"
    r"```(?P<kind>python|pycon)\n(?P<code>.*?)```",
    re.DOTALL,
)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the pages take for granted: a picture with a mask, and files called as in the examples."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        bpfa.draw_data(200, 6, 3, g_o=100.0, g_w=1.0, seed=0).y,
        columns=["CD3", "CD4", "CD8", "CD19", "CD45", "CD56"],
    )
    holes = table.mask(rng.random(table.shape) < 0.1)
    holes.index = pd.Index([f"cell{i}" for i in range(len(holes))], name="gene")
    holes.to_csv("genes.csv")
    holes.to_csv("table.csv")
    image = np.add.outer(2.0 * np.arange(18), np.arange(16.0))
    model = bpfa.BPFA(n_components=4, max_steps=20, random_state=0).fit(holes.to_numpy())
    return {
        "bpfa": bpfa,
        "np": np,
        "pandas": pd,
        "image": image,
        "mask": rng.random(image.shape) < 0.3,
        "model": model,
    }


def blocks_of(page):
    return list(BLOCKS.finditer(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks_of(page)], ids=lambda page: str(page.relative_to(ROOT))
)
# The numbers of tables that are small enough for a quick example are those of entries seen in the fit.
@pytest.mark.filterwarnings("ignore::bpfa.SeenInFitWarning")
def test_the_examples_of_a_page(page, names):
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for block in blocks_of(page):
        if block["reason"] or (block["library"] and find_spec(block["library"]) is None):
            continue
        line = page.read_text(encoding="utf-8")[: block.start()].count("\n") + 1
        if block["kind"] == "python":
            with warnings.catch_warnings():
                if block["library"]:
                    # What other libraries warn of is theirs.
                    warnings.simplefilter("ignore")
                exec(compile("\n" * line + block["code"], str(page), "exec"), names)
        else:
            test = doctest.DocTestParser().get_doctest(block["code"], names, page.name, str(page), line)
            assert runner.run(test, clear_globs=False).failed == 0, f"{page.name}, line {line}: see above"
            names = test.globs


def test_what_examples_need_is_installed_for_the_tests():
    needed = {block["library"] for page in PAGES for block in blocks_of(page)} - {None}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = " ".join(extras["test"])
    assert needed
    assert [library for library in needed if library not in wanted] == []


def test_there_are_examples():
    assert sum(len(blocks_of(page)) for page in PAGES) > 20
