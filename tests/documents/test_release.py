"""What a release consists of agrees: version numbers, the recipe, the citation and the paper."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import bpfa

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_there_is_one_version():
    assert PROJECT["version"] == bpfa.__version__
    assert re.search(r"^version: (\S+)$", text_of("CITATION.cff"), re.MULTILINE)[1] == bpfa.__version__
    assert re.search(r'set version = "(\S+)"', text_of("recipe/meta.yaml"))[1] == bpfa.__version__
    assert f"## {bpfa.__version__}\n" in text_of("CHANGELOG.md")


@pytest.mark.parametrize("wanted", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"][1:]])
def test_the_recipe_has_the_bounds_of_the_package(wanted):
    assert f"- {wanted.replace('>=', ' >=')}\n" in text_of("recipe/meta.yaml")


def test_the_paper_cites_what_its_bibliography_has():
    entries = re.findall(r"^@\w+\{(\w+),", text_of("joss/paper.bib"), re.MULTILINE)
    cited = set(re.findall(r"@(\w+)", text_of("joss/paper.md")))
    assert len(entries) == len(set(entries)) > 10
    assert set(entries) == cited


def test_the_paper_has_the_sections_of_the_journal():
    # All but the statement of the authors about their tools, which whoever submits it adds.
    sections = re.findall(r"^# (.+)$", text_of("joss/paper.md"), re.MULTILINE)
    assert sections == [
        "Summary",
        "Statement of need",
        "State of the field",
        "Software design",
        "Research impact statement",
        "Acknowledgements",
        "References",
    ]
    words = text_of("joss/paper.md").split("---")[-1].split()
    assert 750 <= len(words) <= 1750


def test_workflows_test_the_versions_that_are_promised():
    promised = {
        name.rpartition(" ")[2]
        for name in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
    }
    tested = json.loads(re.search(r"python: (\[.+\])", text_of(".github/workflows/tests.yml"))[1])
    assert promised <= set(tested)
    assert min(promised, key=lambda name: int(name[2:])) == PROJECT["requires-python"].removeprefix(">=")
