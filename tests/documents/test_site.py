"""The built site in a real browser. `make docs` builds it, and without it these tests are skipped."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from chromium import chromium, needs_chromium, requests_of

pytest.importorskip("selenium.webdriver", reason="no Selenium: pip install selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site: make docs builds it"),
]
PAGES = (
    "index.html",
    "math.html",
    "tables.html",
    "guides/first-steps.html",
    "guides/settings.html",
    "guides/coming-from.html",
    "api/generated/bpfa.BPFA.html",
    "api/commands.html",
    "gallery/index.html",
    "gallery/plot_1_inpaint.html",
    "gallery/plot_11_calibration.html",
    "repository/benchmarks/ACCURACY.html",
)


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that does not print what it is asked for."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    """The address of the site on a server of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def browser(started, address):
    """The browser. In the end no page may have an error, or have asked for anything elsewhere."""
    requests_of(started)
    started.get_log("browser")
    yield started
    started.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    # The theme reports on the console which mode it has chosen, at the level INFO.
    assert [entry for entry in started.get_log("browser") if entry["level"] != "INFO"] == []
    asked = [url for page, url in requests_of(started) if page.startswith(address)]
    assert asked
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens(browser, address, page):
    browser.get(address + page)
    assert browser.find_element(By.TAG_NAME, "h1").text
    sizes = browser.execute_script("return [...document.images].map(i => [i.complete, i.naturalWidth])")
    assert all(complete and width > 0 for complete, width in sizes)


def test_search_finds_inpaint(browser, address):
    browser.get(f"{address}search.html?q=inpaint")
    WebDriverWait(browser, 20).until(
        lambda driver: "found" in driver.find_element(By.CLASS_NAME, "search-summary").text
    )
    found = [link.get_attribute("href") for link in browser.find_elements(By.CSS_SELECTOR, ".search a")]
    assert any("bpfa.inpaint.html" in link for link in found)
    assert any("/images.html" in link for link in found)


def show_at(browser, width):
    """Give the browser a screen of some width."""
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)


def brightness(browser):
    """Return the mean of the background's colours, from 0 (black) to 255 (white)."""
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    channels = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(channels) / 3


def test_dark_mode_can_be_switched_on(browser, address):
    show_at(browser, 1280)
    browser.get(address)
    shown = {}
    for mode in ("light", "dark"):
        browser.find_element(By.CSS_SELECTOR, ".theme-switch-button").click()
        browser.find_element(By.CSS_SELECTOR, f"button.theme-change-button[data-mode={mode}]").click()
        WebDriverWait(browser, 5).until(
            lambda driver, mode=mode: (
                driver.find_element(By.TAG_NAME, "html").get_attribute("data-theme") == mode
            )
        )
        shown[mode] = brightness(browser)
    assert shown["dark"] < 80 < 200 < shown["light"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read_on_a_phone(browser, address, page):
    show_at(browser, 390)
    browser.get(address + page)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    size = browser.execute_script(
        "return parseFloat(getComputedStyle(document.querySelector('article p')).fontSize)"
    )
    assert size >= 15


def test_the_menu_opens_on_a_phone(browser, address):
    show_at(browser, 390)
    browser.get(address)
    browser.find_element(By.CSS_SELECTOR, ".primary-toggle").click()
    link = browser.find_element(By.LINK_TEXT, "Reference")
    WebDriverWait(browser, 5).until(lambda _: link.is_displayed())
