"""References to the documentation, in source files and in the documents themselves, lead somewhere."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANUAL = "docs/math.md"
# Written in two parts, so that this file does not refer to the page that must not be referred to.
OUTSIDE = "MATH" + ".md"
SOURCES = {
    ".py",
    ".pyi",
    ".h",
    ".cpp",
    ".cu",
    ".cuh",
    ".md",
    ".toml",
    ".txt",
    ".yml",
    ".yaml",
    ".cff",
    ".j2",
    ".html",
}

# "docs/math.md section 4", "docs/math.md sections 2, 3 and 5"; a comment may break the line in between.
SECTIONS = re.compile(r"docs/math\.md[\s#/*]+sections?[\s#/*]+(\d+(?:(?:,\s*|\s+and\s+|\s+to\s+)\d+)*)")
PAGES = re.compile(r"(?<![\w./])(?:docs|benchmarks|paper)/[\w/-]+\.md\b")
LINKS = re.compile(r"\]\(([^)\s]+)\)")


@cache
def tracked() -> tuple[Path, ...]:
    """Return the text files that belong to the project."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the files of the project are known to git only")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return tuple(path for path in paths if path.is_file() and _is_source(path))


def _is_source(path: Path) -> bool:
    return path.suffix in SOURCES or path.name in ("Makefile", "CMakeLists.txt")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def sections_named(text: str) -> set[int]:
    """Return the numbers of the manual's sections that a text refers to."""
    return {int(number) for listed in SECTIONS.findall(text) for number in re.findall(r"\d+", listed)}


def sections_of_manual() -> list[int]:
    return [int(number) for number in re.findall(r"^## (\d+)\. ", text_of(ROOT / MANUAL), flags=re.MULTILINE)]


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page to files that do not exist, or to headings that their page does not have."""
    broken = []
    for link in LINKS.findall(re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(text_of(target))):
            broken.append(link)
    return broken


def test_the_sections_of_the_manual_are_numbered_in_order():
    numbers = sections_of_manual()
    assert len(numbers) >= 7
    assert numbers == list(range(1, len(numbers) + 1))


def test_no_file_refers_to_a_page_outside_the_repository():
    assert [path for path in tracked() if OUTSIDE in text_of(path)] == []


def test_every_section_that_is_referred_to_exists():
    named = {path: sections_named(text_of(path)) for path in tracked()}
    # The code does refer to the manual: a pattern that never matches would find nothing wrong.
    assert sum(bool(numbers) for path, numbers in named.items() if path.suffix != ".md") > 20
    known = set(sections_of_manual())
    assert {path: numbers - known for path, numbers in named.items() if numbers - known} == {}


def test_every_page_that_is_named_exists():
    named = {(path, page) for path in tracked() for page in PAGES.findall(text_of(path))}
    assert len(named) > 20
    assert sorted((path, page) for path, page in named if not (ROOT / page).is_file()) == []


def test_every_link_between_pages_leads_somewhere():
    pages = [path for path in tracked() if path.suffix == ".md"]
    assert len(pages) > 5
    assert {page: broken for page in pages if (broken := broken_links(page))} == {}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("// Sums (docs/math.md section 4). Each", {4}),
        ("as in docs/math.md sections 2, 3 and 5", {2, 3, 5}),
        ("# docs/math.md\n# section 99", {99}),
        ("docs/math.md, from 2015", set()),
    ],
)
def test_references_are_recognised(text, numbers):
    assert sections_named(text) == numbers


def test_a_link_that_leads_nowhere_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading, here\n[right](#a-heading-here) [wrong](#there) [gone](gone.md) [far](https://a.example)\n"
    )
    assert broken_links(page) == ["#there", "gone.md"]
