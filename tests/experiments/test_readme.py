"""The README's examples run as they stand, one after the other."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_examples_of_the_readme(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(programs) == 5
    names = {}
    for program in programs:
        exec(compile(program, str(README), "exec"), names)
    printed = capsys.readouterr().out
    assert "features in use" in printed
    assert "HeldOutScore(log_likelihood=" in printed
    assert (names["readable"].transform(names["X"]) != 0).sum(axis=1).mean() < 2
    assert (tmp_path / "model.bpfa").exists()
    assert names["result"].image.shape == names["picture"].shape
