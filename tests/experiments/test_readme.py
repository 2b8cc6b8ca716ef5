"""The README's examples run as they stand, and its table, as that of the site, is made from other pages."""

import re
from pathlib import Path

import pytest

from benchmarks import front
from benchmarks.pages import FRONT

README = Path(__file__).parents[2] / "README.md"


def test_the_examples_of_the_readme(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(programs) == 2
    names = {}
    for program in programs:
        exec(compile(program, str(README), "exec"), names)
    assert "features in use" in capsys.readouterr().out
    assert names["filled"].shape == names["std"].shape == names["X"].shape
    assert names["result"].image.shape == names["picture"].shape


def test_the_readme_is_what_a_stranger_needs():
    assert README.read_text().count("\n") < 150


@pytest.mark.parametrize("page", FRONT, ids=lambda page: page.name)
def test_the_table_in_front_is_that_of_the_benchmarks(page):
    section = re.search(r"<!-- front -->\n(.*?)\n<!-- end -->", page.read_text(), flags=re.DOTALL)
    assert section[1] == front.markdown(), "python -m benchmarks.readme writes it anew"


PAGE = """<!-- like_rows -->
Cells, few:

|  | MSE | log-likelihood | 95 % covers | CPU seconds |  |
| --- | ---: | ---: | ---: | ---: | ---: |
| means | 1.0 | -1.4 |  | 0.1 |  |
| trees | 0.8 | -1.5 |  | 20 | few |
| bpfa, groups=False | 0.7 | -1.3 | 94% | 1 |  |
| bpfa | 0.9 | -1.2 | 95% | 2 |  |
<!-- end -->
"""


def test_the_best_of_the_others_is_chosen_by_the_measure():
    error, likelihood = (task for task in front.TASKS if task.section == "like_rows")
    assert front.line_of(error, PAGE)[2:] == ["0.9 (2 s)", "95%", "trees 0.8 (20 s)"]
    assert front.line_of(likelihood, PAGE)[2:] == ["-1.2 (2 s)", "95%", "means -1.4 (0.1 s)"]


def test_a_table_that_is_gone_is_named():
    with pytest.raises(ValueError, match="'wide': no line begins with 'Tumours"):
        front.line_of(front.TASKS[-2], PAGE)
