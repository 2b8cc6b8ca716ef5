"""The README's example runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_of_the_readme(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    exec(compile(program, str(README), "exec"), {})
    printed = capsys.readouterr().out
    assert "features in use" in printed
    assert "HeldOutScore(log_likelihood=" in printed
