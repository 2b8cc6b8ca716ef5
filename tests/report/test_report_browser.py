"""The report in a real browser: Chromium without a screen, driven by Selenium (see `make browser`)."""

import json
import re

import numpy as np
import pytest
from chromium import chromium, needs_chromium, requests_of

import bpfa
from bpfa.images import inpaint
from bpfa.images.files import Picture
from bpfa.report import image_report, model_report

webdriver = pytest.importorskip("selenium.webdriver", reason="no Selenium: pip install selenium")
from selenium.webdriver.common.by import By  # noqa: E402 - only once it is known to be installed
from selenium.webdriver.common.keys import Keys  # noqa: E402

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports of an image and of a model."""
    folder = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(0)
    values = np.add.outer(3.0 * np.arange(60), np.arange(48)) + rng.normal(size=(60, 48))
    missing = rng.random(values.shape) < 0.5
    result = inpaint(values, missing, patch_size=6, n_components=16, max_steps=30, random_state=0)
    page = image_report(
        result, Picture(folder / "a.npy", values), command="bpfa inpaint 'a b.npy' out.npy", truth=values
    )
    (folder / "image.html").write_text(page, encoding="utf-8")
    y = bpfa.draw_data(300, 12, 5, g_o=100.0, g_w=1.0, seed=0).y * rng.uniform(1, 9, 12)
    model = bpfa.BPFA(10, max_steps=60, held_out=0.1, random_state=0).fit(y)
    (folder / "model.html").write_text(model_report(model, y, title="m.bpfa"), encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser, pages, request):
    """An open page. At the end there must be no error in it, and it must have asked for nothing elsewhere."""
    address = (pages / request.param).as_uri()
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(address)
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert browser.get_log("browser") == []
    # The page that the browser starts with may still ask for its parts.
    asked = [url for page, url in requests_of(browser) if page == address]
    assert [url for url in asked if url != address and not url.startswith("data:")] == []
    assert address in asked


image = pytest.mark.parametrize("opened", ["image.html"], indirect=True)
both = pytest.mark.parametrize("opened", ["image.html", "model.html"], indirect=True)


def shown_width(browser):
    """Return the share of the picture that is shown as it was, in percent: what clipping leaves of it."""
    clip = browser.execute_script("return getComputedStyle(document.querySelector('.before')).clipPath")
    top, right, bottom, left = re.fullmatch(r"inset\((\S+) (\S+) (\S+) (\S+)\)", clip).groups()
    assert (top, bottom, left) == ("0px",) * 3
    return 100 - float(right.removesuffix("%"))


@image
def test_the_slider_moves_by_keyboard(opened):
    slider = opened.find_element(By.CSS_SELECTOR, "#slider input")
    assert shown_width(opened) == 50
    opened.execute_script("document.querySelector('#slider input').focus()")
    webdriver.ActionChains(opened).send_keys(Keys.ARROW_RIGHT * 3).perform()
    assert shown_width(opened) == 53
    webdriver.ActionChains(opened).send_keys(Keys.HOME).perform()
    assert shown_width(opened) == 0
    assert slider.get_attribute("aria-valuetext") == "0 % before restoration"


@image
def test_the_slider_moves_by_pointer(opened):
    frame = opened.find_element(By.ID, "slider")
    width = frame.size["width"]
    drag = webdriver.ActionChains(opened).move_to_element_with_offset(frame, -width // 4, 0).click_and_hold()
    drag.move_by_offset(width // 2, 30).release().perform()
    assert shown_width(opened) == pytest.approx(75, abs=2)
    webdriver.ActionChains(opened).move_to_element(frame).perform()
    assert shown_width(opened) == pytest.approx(75, abs=2)
    handle = opened.find_element(By.CLASS_NAME, "handle")
    assert handle.rect["x"] == pytest.approx(frame.rect["x"] + 0.75 * width, abs=0.03 * width)


def shown_group(browser):
    """Return where the chosen group is, the captions of its tiles, and their pixels."""
    said = browser.find_element(By.ID, "group").text
    place = tuple(int(n) for n in re.search(r"row (\d+) and column (\d+)", said).groups())
    captions = [item.text for item in browser.find_elements(By.CSS_SELECTOR, "#features .figures")]
    pixels = browser.execute_script(
        "return [...document.querySelectorAll('#features canvas')].map(c => "
        "[...c.getContext('2d').getImageData(0, 0, c.width, c.height).data])"
    )
    return place, captions, pixels


@image
def test_a_click_shows_the_features_of_the_nearest_group(opened):
    frame = opened.find_element(By.ID, "groups")
    data = json.loads(frame.get_attribute("data-groups"))
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", frame)
    before = shown_group(opened)
    height, width = data["patch"]
    for share_y, share_x in ((0.02, 0.02), (0.97, 0.6)):
        offset = [
            int((share - 0.5) * frame.size[side]) for share, side in ((share_x, "width"), (share_y, "height"))
        ]
        webdriver.ActionChains(opened).move_to_element_with_offset(frame, *offset).click().perform()
        y, x = share_y * data["height"] - height / 2, share_x * data["width"] - width / 2
        nearest = min(data["references"], key=lambda place: (place["y"] - y) ** 2 + (place["x"] - x) ** 2)
        place, captions, pixels = shown_group(opened)
        assert place == (nearest["y"], nearest["x"])
        assert captions == ["mean", *(f"{100 * share:.1f}%" for share in nearest["shares"])]
        assert pixels != before[2]
        # Tiles are opaque and show something.
        assert all(set(tile[3::4]) == {255} for tile in pixels)
        assert all(len(set(tile[0::4])) > 1 for tile in pixels)
    box = opened.find_element(By.CLASS_NAME, "chosen").rect
    scale = frame.size["width"] / data["width"]
    assert box["x"] - frame.rect["x"] == pytest.approx(scale * place[1], abs=3)
    assert box["width"] == pytest.approx(scale * width, abs=3)


@image
def test_arrow_keys_move_from_group_to_group(opened):
    opened.execute_script("document.getElementById('groups').focus({preventScroll: true})")
    (y, x), _, _ = shown_group(opened)
    webdriver.ActionChains(opened).send_keys(Keys.ARROW_RIGHT).perform()
    (same, further), _, _ = shown_group(opened)
    assert (same, further > x) == (y, True)
    webdriver.ActionChains(opened).send_keys(Keys.ARROW_UP * 30 + Keys.ARROW_LEFT * 30).perform()
    assert shown_group(opened)[0] == (0, 0)
    assert opened.find_element(By.ID, "status").get_attribute("textContent").startswith("The patch")


@both
def test_the_gallery_sorts(opened):
    def order(key):
        items = opened.find_elements(By.CSS_SELECTOR, "#gallery > li")
        return [float(item.get_attribute(f"data-{key}")) for item in items]

    assert order("energy") == sorted(order("energy"), reverse=True)
    by_energy = order("index")
    # A sort that changes nothing could not be seen: features are given a use of another order.
    opened.execute_script(
        "document.querySelectorAll('#gallery > li').forEach((item, i) => item.dataset.use = 7 * i % 5)"
    )
    for key, descending in (("use", True), ("index", False), ("energy", True)):
        button = opened.find_element(By.CSS_SELECTOR, f"button[data-sort={key}]")
        button.send_keys(Keys.ENTER)
        assert order(key) == sorted(order(key), reverse=descending)
        pressed = opened.find_elements(By.CSS_SELECTOR, "button[aria-pressed=true]")
        assert pressed == [button]
        assert opened.find_element(By.ID, "status").get_attribute("textContent") == f"Sorted by {key}"
        if key == "use":
            assert order("index") != by_energy
    assert order("index") == by_energy


# What stands for the clipboard, which a browser may or may not let a file write to.
CLIPBOARDS = {
    "Copied": "text => { window.copied = text; return Promise.resolve(); }",
    "Selected": "text => Promise.reject(new Error('not allowed'))",
}


@both
@pytest.mark.parametrize("answer", CLIPBOARDS)
def test_the_command_is_copied(opened, answer):
    """It is selected, one key away, where the browser does not allow more."""
    command = opened.find_element(By.ID, "command").text
    assert "bpfa" in command
    opened.execute_script(
        f"Object.defineProperty(navigator, 'clipboard', {{value: {{writeText: {CLIPBOARDS[answer]}}}}})"
    )
    opened.find_element(By.ID, "copy").click()
    said = opened.execute_async_script(
        "const done = arguments[0]; setTimeout(() => done(document.getElementById('copy').textContent), 200)"
    )
    assert said == answer
    found = "return window.copied" if answer == "Copied" else "return getSelection().toString()"
    assert opened.execute_script(found).strip() == command


@both
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen_and_can_be_read(opened, width, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    colours = opened.execute_script(
        "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    )
    ink, paper = (np.mean([int(n) for n in colour[4:-1].split(",")]) for colour in colours)
    assert abs(ink - paper) > 150
    assert (paper < ink) == (scheme == "dark")


@image
def test_pictures_are_there(opened):
    sizes = opened.execute_script("return [...document.images].map(i => [i.complete, i.naturalWidth])")
    assert len(sizes) > 3
    assert all(complete and width > 0 for complete, width in sizes)
