"""Every link of the built site leads to a page and a place on it, and no page loads anything from elsewhere.

`make docs` builds the site, and executes the examples of the gallery.
"""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
TIMES = SITE.parent / "gallery.xml"
needs_site = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site: make docs builds it")
# What an example may take when other programs run beside it: alone, each takes less than half of a minute.
MOST_SECONDS = 120


class Page(HTMLParser):
    """The places of a page that links can lead to, its links, and what a browser loads to show it."""

    def __init__(self):
        super().__init__()
        self.places, self.links, self.loaded = set(), [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places |= {found[name] for name in ("id", "name") if found.get(name)}
        self.links += [found[name] for name in ("href", "src") if found.get(name)]
        loads = found.get("src") or (found.get("href") if tag == "link" else None)
        self.loaded += [loads] if loads else []


@cache
def page_of(path):
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(path, link):
    """Return whether a link of a page leads nowhere; links to other sites are not looked at."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return True
    places = page_of(target).places if parts.fragment and target.suffix == ".html" else ()
    return bool(places) and unquote(parts.fragment) not in places


def elsewhere(link):
    """Return whether something is on another site."""
    return bool(urlsplit(link).netloc)


@needs_site
def test_every_link_of_the_site_leads_somewhere():
    # The theme keeps templates in _static.
    pages = [path for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts]
    assert len(pages) > 50
    assert sum(len(page_of(path).links) for path in pages) > 1000
    wrong = {str(path.relative_to(SITE)): found for path in pages
             if (found := [link for link in page_of(path).links if broken(path, link)])}  # fmt: skip
    assert wrong == {}
    foreign = {str(path.relative_to(SITE)): found for path in pages
               if (found := [link for link in page_of(path).loaded if elsewhere(link)])}  # fmt: skip
    assert foreign == {}


@pytest.mark.skipif(not TIMES.exists(), reason="the examples were not executed: make docs does it")
def test_no_example_takes_long():
    cases = list(ElementTree.parse(TIMES).getroot().iter("testcase"))
    assert cases
    assert {
        case.get("name"): case.get("time") for case in cases if float(case.get("time")) > MOST_SECONDS
    } == {}


def test_a_link_that_leads_nowhere_is_noticed(tmp_path):
    path = tmp_path / "a.html"
    path.write_text('<p id="here"></p>')
    (tmp_path / "b.html").write_text("<p></p>")
    assert not any(broken(path, link) for link in ("#here", "a.html#here", "b.html", "https://a.example/b"))
    assert all(broken(path, link) for link in ("#there", "a.html#there", "c.html", "../b.html"))


def test_what_a_page_loads_from_elsewhere_is_noticed(tmp_path):
    path = tmp_path / "a.html"
    path.write_text(
        '<link href="https://a.example/b.css"><script src="c.js"></script><a href="https://d.example">d</a>'
    )
    assert [elsewhere(link) for link in page_of(path).loaded] == [True, False]
