"""Pages of the repository that are not in docs/ become part of the site, and links to them lead there.

The pages are copied into docs/repository/, with the folders that they have in the repository, before each
build. A link of any page is resolved in the repository, as a code host does it, and then pointed at the place
where the site has the same page; a link to an example leads to its page in the gallery. A link to a file that
is not part of the site becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
COPIES = "repository"
PAGES = (
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "GOVERNANCE.md",
    "ROADMAP.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "benchmarks/ACCURACY.md",
    "paper/RESULTS.md",
)
# The first page of the site says what these two say on a code host.
HOME = ("README.md", "docs/README.md")
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"(```.*?```)", flags=re.DOTALL)


def place_in_repository(document: str) -> str:
    """Return the path in the repository of a document of the site.

    Examples
    --------
    >>> place_in_repository("repository/paper/RESULTS"), place_in_repository("math")
    ('paper/RESULTS.md', 'docs/math.md')
    """
    inside = document.removeprefix(f"{COPIES}/")
    return f"{inside}.md" if inside != document else f"docs/{document}.md"


def place_in_site(path: str) -> str | None:
    """Return where the site has a page of the repository, or None if it does not have it.

    Examples
    --------
    >>> place_in_site("docs/math.md"), place_in_site("paper/RESULTS.md"), place_in_site("Makefile")
    ('/math.md', '/repository/paper/RESULTS.md', None)
    >>> place_in_site("examples/plot_1_inpaint.py")
    '/gallery/plot_1_inpaint.rst'
    """
    if path in HOME:
        return "/index.md"
    if path in PAGES:
        return f"/{COPIES}/{path}"
    if path == "examples/GALLERY_HEADER.rst":
        return "/gallery/index.rst"
    if path.startswith("examples/plot_"):
        return f"/gallery/{posixpath.basename(path).removesuffix('.py')}.rst"
    if path.startswith("docs/") and path.endswith(".md"):
        return f"/{path.removeprefix('docs/')}"
    return None


def with_links_of_the_site(text: str, page: str) -> str:
    """Return a page of the repository with its links changed to those of the site.

    Examples
    --------
    >>> with_links_of_the_site("See [results](../paper/RESULTS.md#mass-cytometry).", "docs/math.md")
    'See [results](/repository/paper/RESULTS.md#mass-cytometry).'
    >>> with_links_of_the_site("See [the targets](../Makefile).", "docs/math.md")
    'See the targets.'
    """

    def changed(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", target) or not target or target.startswith("/"):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if match["image"]:
            return match[0] if page.startswith("docs/") == path.startswith("docs/") else _image(match, path)
        place = place_in_site(path)
        if place is None:
            return match["text"]
        return f"[{match['text']}]({place}{f'#{anchor}' if anchor else ''})"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(changed, part) for part in parts)


def _image(match: re.Match[str], path: str) -> str:
    """Return a picture of the repository that a page of docs/ shows, at the place of its copy."""
    _copy(path)
    return f"![{match['text']}](/{COPIES}/{path})"


def _copy(path: str) -> None:
    copy = DOCS / COPIES / path
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / path, copy)


def copy_pages(app: Any, config: Any) -> None:
    """Copy the pages, and the pictures that they show, before Sphinx looks for documents."""
    for page in PAGES:
        _copy(page)
        for match in LINK.finditer((ROOT / page).read_text(encoding="utf-8")):
            if match["image"]:
                _copy(posixpath.normpath(posixpath.join(posixpath.dirname(page), match["target"])))


def rewrite_links(app: Any, document: str, content: list[str]) -> None:
    """Change the links of a page when Sphinx reads it."""
    if Path(app.env.doc2path(document)).suffix == ".md":
        content[0] = with_links_of_the_site(content[0], place_in_repository(document))


def setup(app: Any) -> dict[str, bool]:
    """Register the two steps with Sphinx."""
    app.connect("config-inited", copy_pages)
    app.connect("source-read", rewrite_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
