"""Every public function and method says what it does, takes and returns, with related ones and an example.

What a method of a base class says holds for methods that override it, and the reference shows it with them
(docs/_ext/whole_docstrings.py). Fields may be documented by a string below them.
"""

import ast
import inspect
import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import is_typeddict

import pytest

docscrape = pytest.importorskip("numpydoc.docscrape", reason="no numpydoc: pip install numpydoc")

MODULES = ("bpfa", "bpfa.images", "bpfa.images.masks", "bpfa.data", "bpfa.plots", "bpfa.report")
NOTHING = (None, "None", inspect.Signature.empty, type(None))


def public():
    """Return every public function and class by the name under which it is found first."""
    found = {}
    for module in MODULES:
        for name in import_module(module).__all__:
            value = getattr(import_module(module), name)
            if callable(value) and value not in found.values():
                found[f"{module}.{name}"] = value
    return found


PUBLIC = public()
FUNCTIONS = {name: value for name, value in PUBLIC.items() if not inspect.isclass(value)}
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}


def methods_of(kind):
    """Return the public methods of a class that bpfa itself defines, with all definitions of each."""
    found = {}
    for base in kind.__mro__:
        for name, value in vars(base).items():
            function = getattr(value, "fn", None) or getattr(value, "__func__", value)
            if (
                base.__module__.startswith("bpfa")
                and not name.startswith("_")
                and inspect.isfunction(function)
            ):
                found.setdefault(name, []).append(function)
    return found


def is_protocol(kind):
    return getattr(kind, "_is_protocol", False) or is_typeddict(kind)


def sections(functions):
    """Return the documented names, whether a result is described, and whether there is an example."""
    parsed = [docscrape.FunctionDoc(function) for function in functions]
    entries = [entry for text in parsed for entry in text["Parameters"]]
    names = {name.strip() for entry in entries for name in entry.name.split(",")}
    returns = any(text["Returns"] or text["Yields"] for text in parsed)
    return names, returns, any(text["Examples"] for text in parsed)


def problems(functions):
    """Return what the documentation of a function lacks, given it and the functions that it overrides."""
    function = functions[0]
    signature = inspect.signature(function)
    names, returns, example = sections(functions)
    taken = [name for name in signature.parameters if name not in ("self", "cls")]
    plain = {name.lstrip("*") for name in names}
    # "**options: those of another function" speaks for all that follow.
    covered = any(name.startswith("**") for name in names)
    lacking = [f"parameter {name}" for name in taken if name not in plain and not covered]
    if signature.return_annotation not in NOTHING and not returns:
        lacking.append("Returns")
    if not has_section("See Also", *functions):
        lacking.append("See Also")
    if not example:
        lacking.append("Examples")
    if not "".join(docscrape.FunctionDoc(function)["Summary"]).strip():
        lacking.append("summary")
    return lacking


def fields_with_a_text(kind):
    """Return the fields of a class that are followed by a string, as fields of dataclasses are documented."""
    body = ast.parse(dedent(inspect.getsource(kind))).body[0].body
    return {
        first.target.id
        for first, second in pairwise(body)
        if isinstance(first, ast.AnnAssign) and isinstance(second, ast.Expr)
    }


def has_section(section, *documented):
    """Return whether one of several functions and classes has a section in its docstring."""
    return any(bool(docscrape.get_doc_object(value)[section]) for value in documented)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_documented(name):
    assert problems([FUNCTIONS[name]]) == []


@pytest.mark.parametrize(
    "name",
    [name for name, kind in CLASSES.items() if not issubclass(kind, Exception) and not is_typeddict(kind)],
)
def test_a_class_says_what_else_to_look_at(name):
    assert has_section("See Also", CLASSES[name])


# What rests on a published method names it.
PUBLISHED = (
    "bpfa.BPFA",
    "bpfa.BPFA.annotate",
    "bpfa.BPFA.calibration",
    "bpfa.BPFA.score",
    "bpfa.Algorithm",
    "bpfa.ChainPosterior",
    "bpfa.GlobalPosterior",
    "bpfa.Priors",
    "bpfa.Schedule",
    "bpfa.algorithm",
    "bpfa.denoise",
    "bpfa.draw_data",
    "bpfa.full_bound",
    "bpfa.held_out_score",
    "bpfa.inpaint",
    "bpfa.posterior_draws",
    "bpfa.train",
    "bpfa.data.AnnDataRows",
    "bpfa.data.column_moments",
    "bpfa.images.PatchRows",
    "bpfa.images.masks.Scan",
    "bpfa.plots.plot_coverage",
)


def references_of(value):
    """Return the works in the References of a docstring, each as a surname of its first author and a year."""
    lines = " ".join(docscrape.get_doc_object(value)["References"])
    works = re.split(r"\.\. \[\d+\] ", lines)[1:]
    authors = [re.match(r"(?:\S\. )+([^,]+?)(?:,| and )", work)[1] for work in works]
    years = [re.search(r"\((\d{4})\)", work)[1] for work in works]
    return list(zip(authors, years, strict=True))


def value_of(name):
    """Return what a name such as bpfa.BPFA.fit stands for."""
    parent, _, last = name.rpartition(".")
    return PUBLIC[name] if name in PUBLIC else getattr(PUBLIC[parent], last)


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_comes_from_papers_names_them(name):
    assert references_of(value_of(name))


def test_the_works_that_docstrings_name_are_on_the_page_of_references():
    listed = (Path(__file__).parents[2] / "docs" / "references.md").read_text(encoding="utf-8")
    entries = [" ".join(entry.split()) for entry in listed.split("\n- ")]
    known = {
        (entry.partition(",")[0], year) for entry in entries for year in re.findall(r"\((\d{4})\)", entry)
    }
    named = {work for name in PUBLISHED for work in references_of(value_of(name))}
    assert len(named) > 8
    assert named - known == set()


@pytest.mark.parametrize("name", PUBLIC)
def test_what_else_to_look_at_exists(name):
    parents = ["", f"{name}.", f"{name.rpartition('.')[0]}."]
    documented = [PUBLIC[name]]
    if inspect.isclass(PUBLIC[name]):
        documented += [function for functions in methods_of(PUBLIC[name]).values() for function in functions]
    for value in documented:
        for targets, _ in docscrape.get_doc_object(value)["See Also"]:
            for target, _ in targets:
                assert any(exists(parent + target) for parent in parents), target


def exists(path):
    """Return whether a name such as bpfa.BPFA.fit leads to something public."""
    for parts in range(path.count("."), 0, -1):
        pieces = path.split(".")
        module, rest = ".".join(pieces[:parts]), pieces[parts:]
        if module in MODULES:
            value = import_module(module)
            if rest[0] not in value.__all__:
                return False
            for piece in rest:
                value = getattr(value, piece, None)
            return value is not None
    return False


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_and_its_methods_are_documented(name):
    kind = CLASSES[name]
    text = docscrape.ClassDoc(kind)
    example = "\n".join(text["Examples"])
    found = {method: problems(functions) for method, functions in methods_of(kind).items()}
    assert {method: lacking for method, lacking in found.items() if lacking} == {}
    assert "".join(text["Summary"]).strip()
    # Nobody makes warnings, errors and protocols.
    if not issubclass(kind, (Warning, Exception)) and not is_protocol(kind):
        assert example
        said = {entry.strip().lstrip("*") for part in ("Parameters", "Attributes") for parameter in text[part]
                for entry in parameter.name.split(",")}  # fmt: skip
        # "..." stands for the parameters of another class.
        taken = set(inspect.signature(kind).parameters) if "..." not in said else set()
        assert taken - said - fields_with_a_text(kind) == set()


def test_names_that_lead_nowhere_are_noticed():
    assert exists("bpfa.BPFA.fit")
    assert exists("bpfa.images.masks.random")
    assert not exists("bpfa.BPFA.fitted")
    assert not exists("bpfa.nothing")
    assert not exists("fit")


def test_what_is_not_documented_is_noticed():
    def bare(first, second) -> int:
        """Return a number.

        Parameters
        ----------
        first : int
        """

    assert problems([bare]) == ["parameter second", "Returns", "See Also", "Examples"]
