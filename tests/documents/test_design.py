"""What docs/design.md says of the layers is what the package has and what the linter checks."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bpfa"
DESIGN = (ROOT / "docs" / "design.md").read_text()


def layers_of_the_page():
    """The layers of the table, from the lowest to the highest."""
    table = DESIGN.split("## Layers")[1].split("## ")[0]
    return re.findall(r"^\| (`[^|]+`) \|", table, flags=re.M)


def test_the_layers_are_those_of_the_contract():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    documented = [" | ".join(re.findall(r"`(\w+)`", row)) for row in layers_of_the_page()]
    assert list(reversed(documented)) == [re.sub(r"\s*\|\s*", " | ", layer) for layer in contract["layers"]]


def test_every_folder_is_a_layer_and_nothing_else_stands_at_the_top():
    documented = {name for row in layers_of_the_page() for name in re.findall(r"`(\w+)`", row)}
    there = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert there == documented | {"__init__.py", "py.typed"}


def test_the_stages_of_a_fit_are_there():
    stages = DESIGN.split("through `BPFA().fit(X)`")[1].split("## ")[0]
    functions = re.findall(r"`((?:estimator|fitting)(?:\.\w+){2})`", stages)
    assert len(functions) >= 6
    for name in functions:
        module, function = name.rsplit(".", 1)
        source = (PACKAGE / f"{module.replace('.', '/')}.py").read_text()
        assert re.search(rf"^(def|class) {function}\b", source, flags=re.MULTILINE), name
