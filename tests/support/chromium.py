"""A browser without a screen for tests of pages: Chromium, driven by Selenium (see `make browser`)."""

import json
import shutil
from contextlib import contextmanager

import pytest

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no chromium: make browser installs it")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium(profile):
    """Start the browser with an empty profile, and end it afterwards."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.implicitly_wait(5)
    yield driver
    driver.quit()


def requests_of(driver):
    """Return the addresses that pages have asked for since the last call, each with that of its page."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [(event["documentURL"], event["request"]["url"]) for event in sent]
