"""The pages of a report: what they show, and that they are whole and harmless by themselves."""

import base64
import html
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

import bpfa
from bpfa.backends.registry import backend_of
from bpfa.images import denoise, inpaint
from bpfa.images.files import Picture
from bpfa.report import image_report, model_report
from bpfa.report.charts import coverage_chart, line_chart, ticks
from bpfa.report.pictures import MAX_BYTES, atom, colour_map, frame, grey, picture_uri
from bpfa.report.table import hole_section
from bpfa.report.truth import LEVELS, Comparison, coverage

pytest.importorskip("jinja2")
Image = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(0)


def pixels_of(address):
    """The picture in the address of an image."""
    data = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    return np.asarray(Image.open(io.BytesIO(data)))


def restored(shape, name="a.png", **axes):
    """A small image restored, and what it was."""
    values = RNG.integers(0, 255, shape).astype(np.uint8)
    missing = RNG.random(shape) < 0.5
    result = inpaint(values, missing, patch_size=4, n_components=8, max_steps=10, random_state=0, **axes)
    return result, Picture(name, values, axes.get("channel_axis"), axes.get("stack_axis"))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((20, 16), {}),
        ((20, 16, 3), {"channel_axis": 2}),
        ((2, 20, 16), {"stack_axis": 0}),
        ((5, 20, 16), {"channel_axis": 0}),
        ((5, 20, 16, 3), {"channel_axis": 0, "stack_axis": 3}),
    ],
)
def test_images_of_all_kinds(tmp_path, shape, axes):
    result, picture = restored(shape, tmp_path / "a.png", **axes)
    page = image_report(result, picture, command="bpfa inpaint a.png b.png")
    assert page.startswith("<!doctype html>")
    for part in ("Before and after", "Uncertainty", "Dictionary", "The fit", "Settings", "Run it again"):
        assert part in page
    assert page.count('<li data-use="') == result.model.n_components_used_
    assert "bpfa inpaint a.png b.png" in page
    after = pixels_of(re.search(r'class="after" src="([^"]*)"', page)[1])
    shown = frame(result.image, axes.get("channel_axis"), axes.get("stack_axis"))
    assert after.shape == shown.shape
    assert np.corrcoef(after.ravel(), shown.ravel())[0, 1] > 0.99


def grouped(truth, seen=None, **options):
    """An image refined by groups, and what it was."""
    missing = np.random.default_rng(1).random(truth.shape[:2]) < 0.4
    result = inpaint(
        truth if seen is None else seen, missing, n_components=16, max_steps=20, random_state=0, **options
    )
    assert result.stage == "groups"
    return result, Picture(Path("a.png"), truth, options.get("channel_axis"))


WAVES = 120 + 60 * np.sin(np.add.outer(np.arange(40) / 2, np.arange(48) / 3)) + RNG.normal(size=(40, 48))


def groups_of(page):
    """What the page knows of groups: where they are, and their tiles."""
    data = json.loads(html.unescape(re.search(r'data-groups="([^"]*)"', page)[1]))
    return data, pixels_of(re.search(r'id="sprite" src="([^"]*)"', page)[1])


def test_dictionary_and_groups_side_by_side():
    truth = WAVES.round().astype(np.uint8)
    result, picture = grouped(truth)
    without = image_report(result, picture)
    assert "Dictionary and groups" in without
    assert " dB" not in without
    assert "Coverage" not in without
    page = image_report(result, picture, truth=truth)
    shown = [float(number) for number in re.findall(r"([\d.]+) dB", page)]
    expected = [bpfa.psnr(truth, image, result.missing) for image in (result.dictionary_image, result.image)]
    # That of the result is among the facts at the top as well.
    assert shown == pytest.approx([expected[1], *expected], abs=0.006)
    assert "PSNR over all missing pixels, relative to a peak of 255." in page
    pictures = [
        pixels_of(address) for address in re.findall(r'<img src="([^"]*)" alt="The image as restored', page)
    ]
    for shown, image in zip(pictures, (result.dictionary_image, result.image), strict=True):
        assert np.corrcoef(shown.ravel(), image.ravel())[0, 1] > 0.99
    error = np.abs(truth.astype(float) - result.image)[result.missing]
    found = float(re.search(r"<dt>95% intervals cover</dt><dd>([\d.]+)%", page)[1])
    assert found / 100 == pytest.approx(np.mean(error < 1.96 * result.std[result.missing]), abs=0.1)
    with pytest.raises(ValueError, match=r"truth: shape \(3, 4\); expected that of the image, \(40, 48\)"):
        image_report(result, picture, truth=np.zeros((3, 4)))


def test_the_features_of_groups_are_on_the_page():
    result, picture = grouped(WAVES)
    data, sprite = groups_of(image_report(result, picture))
    (height, width), n = data["patch"], data["columns"]
    assert (data["height"], data["width"]) == WAVES.shape
    assert len(data["references"]) == n * len({reference["y"] for reference in data["references"]})
    assert sprite.shape == (len(data["references"]) // n * height, n * data["tiles"] * width)
    kernels = backend_of("cpu").groups
    for at in (0, n + 1, len(data["references"]) - 1):
        place = data["references"][at]
        (group,) = result.groups.features(0, [place["y"]], [place["x"]], kernels)
        assert place["count"] == len(group.features)
        assert place["shares"] == pytest.approx(group.shares[:6], abs=1e-4)
        left, top = (at % n * data["tiles"] + 1) * width, at // n * height
        tile = sprite[top : top + height, left : left + width]
        np.testing.assert_array_equal(tile, atom(group.features[0], (height, width)))


def test_groups_of_colour_images():
    truth = np.stack([WAVES, WAVES[::-1], 255 - WAVES], axis=-1).astype(np.uint8)
    result, picture = grouped(truth, channel_axis=2)
    page = image_report(result, picture, truth=truth)
    data, sprite = groups_of(page)
    assert sprite.shape[2] == 3
    assert sprite.shape[1] == data["columns"] * data["tiles"] * data["patch"][1]


def test_a_page_without_groups():
    missing = RNG.random(WAVES.shape) < 0.4
    result = inpaint(WAVES, missing, n_components=8, max_steps=5, random_state=0, refine=None)
    page = image_report(result, Picture(Path("a.npy"), WAVES), truth=WAVES)
    assert "Dictionary and groups" not in page
    assert "Coverage" in page


def test_intervals_are_counted_over_all_pixels_of_noisy_images():
    noisy = WAVES + 5 * RNG.normal(size=WAVES.shape)
    noisy[::3, ::4] = np.nan
    result = denoise(noisy, n_components=8, max_steps=5, random_state=0, refine=None)
    known = Comparison.of(result, WAVES)
    assert known.pixels == "pixels"
    assert known.where.all()
    assert known.peak == pytest.approx(np.ptp(WAVES))
    counts = np.array([[0, 9], [3, 4]])
    peaks = [Comparison(counts.astype(t), counts > 0, "pixels").peak for t in ("u1", "u2", "u4", "i8")]
    assert peaks == [255, 65535, 9, 9]
    within = np.abs(WAVES - result.image) < 1.2815516 * result.std
    assert known.coverage(result)[LEVELS.index(0.8)] == pytest.approx(within.mean())


def test_coverage_of_rounded_values():
    """Rounding must hardly change how many pixels are counted, unless deviations are as small as itself."""
    rng = np.random.default_rng(0)
    estimate = rng.uniform(0, 200, 200_000)
    for std in (2.0, 3.0, 10.0):
        truth = (estimate + std * rng.normal(size=estimate.shape)).round()
        for level in (0.5, 0.8, 0.95):
            plain = coverage(truth - estimate, np.full(len(truth), std), level, rounded=False)
            counted = coverage(truth - estimate.round(), np.full(len(truth), std), level, rounded=True)
            assert counted == pytest.approx(plain, abs=0.01)


def test_coverage_charts():
    chart = coverage_chart((0.5, 0.8, 0.99), (0.5, 0.8, 0.99))
    assert "50%: 50%, 80%: 80%, 99%: 99%" in chart
    ends = [
        float(n)
        for n in re.search(r'class="ideal" x1="(.*?)" y1="(.*?)" x2="(.*?)" y2="(.*?)"', chart).groups()
    ]
    points = np.array([pair.split(",") for pair in re.search(r'points="(.*?)"', chart)[1].split()], float)
    # Intervals that are exactly right lie on the dashed line.
    slope = (ends[3] - ends[1]) / (ends[2] - ends[0])
    np.testing.assert_allclose(points[:, 1], ends[1] + slope * (points[:, 0] - ends[0]), atol=0.2)
    low = coverage_chart((0.5, 0.99), (0.03, 0.2))
    assert all(0 <= float(y) <= 220 for y in re.findall(r'cy="([-\d.]+)"', low))


def test_patches_that_are_not_square(tmp_path):
    values = RNG.normal(size=(20, 16))
    result = inpaint(values, values > 1, patch_size=(3, 5), n_components=4, max_steps=5, random_state=0)
    page = image_report(result, Picture(tmp_path / "a.npy", values))
    addresses = re.findall(r'<img src="([^"]*)" alt="bpfa\d+"', page)
    assert len(addresses) == result.model.n_components_used_ > 0
    for address, component in zip(addresses, result.model.components_, strict=False):
        np.testing.assert_array_equal(pixels_of(address), atom(component, (3, 5)))


def test_nothing_comes_from_elsewhere_and_nothing_is_executed(tmp_path):
    name = '<img src=x onerror="alert(1)">.png'
    result, picture = restored((20, 16), tmp_path / name)
    page = image_report(result, picture, command="bpfa 'a&b' <script>alert(2)</script>")
    assert name not in page
    assert "<script>alert" not in page
    assert page.count("<script>") == 1
    addresses = re.findall(r"(?:src|href)\s*=\s*[\"']([^\"']*)|url\([\"']?([^\"')]*)", page)
    assert addresses
    assert all((a or b).startswith("data:") for a, b in addresses)
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_models():
    pandas = pytest.importorskip("pandas")
    y = bpfa.draw_data(80, 12, 4, g_o=100.0, g_w=1.0, seed=0).y
    names = ["<b>bold</b>", *(f"gene{i}" for i in range(11))]
    model = bpfa.BPFA(6, max_steps=60, held_out=0.1, random_state=0, verbose=0)
    page = model_report(model.fit(pandas.DataFrame(y, columns=names)), title="m.bpfa")
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold" in page
    assert page.count('<li data-use="') == model.n_components_used_
    # Four curves of the fit, and the noise of the columns.
    assert page.count("<figcaption>") == 5
    assert "bpfa.BPFA(held_out=0.1, max_steps=60, n_components=6" in page
    plain = model_report(bpfa.BPFA(6, max_steps=5, random_state=0).fit(y), title="m.bpfa")
    assert plain.count("<figcaption>") == 3
    assert "<h3>bpfa0 " in plain
    assert "Feature 0" not in plain


def test_the_columns_shown_are_those_that_weigh_most():
    y = np.array([1.0, 0, 0, 5, 0, -3]) * RNG.normal(size=(200, 1)) + 0.1 * RNG.normal(size=(200, 6))
    model = bpfa.BPFA(4, max_steps=50, standardize=False, random_state=0).fit(y)
    first = model_report(model, title="m").split("<li ")[1]
    shown = re.findall(r'<th scope="row" title="x(\d)"', first)
    signs = re.findall(r'class="(plus|minus)"', first)
    assert shown[:3] == ["3", "5", "0"]
    assert signs[0] == signs[2] != signs[1]


@pytest.fixture(scope="module")
def holed():
    y = bpfa.draw_data(400, 30, 4, g_o=100.0, g_w=1.0, seed=0).y
    y[:40, 7] = np.nan
    return y


def test_the_noise_of_every_column_is_shown(holed):
    model = bpfa.BPFA(4, max_steps=20, random_state=0).fit(holed)
    page = model_report(model, title="m")
    share = model.noise_std_ / model.scale_
    listed = re.findall(r'title="x(\d+)"', page.split("noisiest columns")[1].split("</table>")[0])
    # There are more than can be listed: the noisiest ones are, and a histogram shows all.
    assert [int(d) for d in listed] == np.argsort(-share, kind="stable")[:16].tolist()
    assert "All 30 columns" in page
    few = model_report(bpfa.BPFA(2, max_steps=5, random_state=0).fit(holed[:, :8]), title="m")
    every = re.findall(r'title="x(\d)"', few.split("Every column")[1].split("</table>")[0])
    assert [int(d) for d in every] == list(range(8))


def test_what_is_known_of_the_data(holed):
    model = bpfa.BPFA(4, max_steps=60, held_out=0.1, random_state=0).fit(holed)
    page = model_report(model, holed, title="m")
    explained = model.variance_explained(holed)
    covered = model.calibration(holed)["coverage"].iloc[-1]
    assert f"<dd>{explained['variance_explained'][1]:.1%}</dd>" in page
    assert f"cover {covered:.1%} of them. The fit has not seen these entries" in page
    assert (
        "40 of 12,000 entries are missing (0.3%), in 1 of 30 columns. 360 of 400 rows are complete." in page
    )
    listed = page.split("Share missing, by column")[1].split("</table>")[0]
    assert re.findall(r'title="(x\d+)"', listed) == ["x7"]
    assert ">10.0%<" in listed
    complete = model_report(model, np.nan_to_num(holed), title="m")
    assert "None of 400 x 30 entries is missing." in complete


def test_figures_of_entries_that_the_fit_has_seen_say_so(holed):
    model = bpfa.BPFA(4, max_steps=20, random_state=0).fit(holed)
    page = model_report(model, holed, title="m")
    assert "Variance explained, seen in the fit" in page
    assert "the fit has learned from these entries, so that both numbers are too good" in page
    assert 'class="note warning"' in page


def test_a_map_of_the_holes(holed):
    section = hole_section(
        bpfa.BPFA(4, max_steps=1, random_state=0).fit(holed), holed, [str(d) for d in range(30)]
    )
    cells = re.findall(r'<rect x="(\d+)" y="(\d+)" width="1" height="1" fill-opacity="([\d.]+)"', section.map)
    # The first tenth of 400 rows, in the only column with holes.
    assert cells == [("7", str(y), "1.00") for y in range(4)]


def test_large_pictures_become_small():
    noise = RNG.integers(0, 256, (1200, 2400, 3), dtype=np.uint8)
    assert len(picture_uri(noise)) < 1.4 * MAX_BYTES
    assert len(picture_uri(noise, 100_000)) < 140_000
    height, width, _ = pixels_of(picture_uri(noise)).shape
    assert width == pytest.approx(2 * height, rel=0.01)
    assert width > 400
    # A small one is shown as it is.
    np.testing.assert_array_equal(pixels_of(picture_uri(noise[:8, :8])), noise[:8, :8])


def test_frames():
    stack = np.arange(5 * 4 * 6 * 3).reshape(5, 4, 6, 3)
    np.testing.assert_array_equal(frame(stack, 3, 0), stack[2])
    np.testing.assert_array_equal(frame(stack, 1, 0), stack[2].mean(axis=0))
    np.testing.assert_array_equal(frame(stack[0], None, 0), stack[0, 2])
    np.testing.assert_array_equal(frame(np.moveaxis(stack, 0, 3), 2, 3), stack[2])


def test_pixels():
    values = np.array([[0.0, 5.0], [10.0, np.nan]])
    np.testing.assert_array_equal(grey(values, 0, 10), [[0, 128], [255, 0]])
    alpha = grey(values, 0, 10, np.isnan(values))
    np.testing.assert_array_equal(alpha[..., 1], [[255, 255], [255, 0]])
    np.testing.assert_array_equal(grey(np.ones((2, 2)), 1, 1), np.zeros((2, 2)))
    ends = colour_map(np.array([[0.0, 7.0, 99.0]]), 7.0)
    np.testing.assert_array_equal(ends, [[[0x44, 0x01, 0x54], [0xFD, 0xE7, 0x25], [0xFD, 0xE7, 0x25]]])
    np.testing.assert_array_equal(atom(np.array([-2.0, 0, 1, 2]), (2, 2)), [[0, 128], [191, 255]])
    np.testing.assert_array_equal(atom(np.zeros(12), (2, 2)), np.full((2, 2, 3), 128))


def test_charts():
    steps = np.arange(1, 5000)
    chart = line_chart(steps, 1 / steps, title="a<b", x_label="step")
    assert "a&lt;b: 0.0002" in chart
    assert len(chart) < 20_000
    points = np.array(
        [pair.split(",") for pair in re.search(r'points="(.*?)"', chart)[1].split()], dtype=float
    )
    # Down is more on a screen: a falling curve.
    assert (np.diff(points[:, 0]) > 0).all()
    assert (np.diff(points[:, 1]) >= 0).all()
    assert not line_chart(steps, np.full(len(steps), np.nan), title="a", x_label="b")
    for values in ([3.0, 3.0], [0.0, 0.0], [-2.0, -2.0], [1e-300, 2e-300], [1e12, 1e12 + 1]):
        drawn = line_chart(np.array([1, 2]), np.array(values), title="", x_label="")
        numbers = re.search(r'points="(.*?)"', drawn)[1].replace(",", " ").split()
        assert len(numbers) == 4
        assert np.isfinite(np.array(numbers, dtype=float)).all()
        assert "nan" not in drawn


@pytest.mark.parametrize(("low", "high"), [(0, 1), (3, 480), (-0.7, -0.69), (0, 1e-9), (0, 7e8)])
def test_ticks_are_few_and_within(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 7
    assert low - 1e-12 <= found[0] < found[-1] <= high + 1e-9 * abs(high)


def test_a_model_is_judged_by_entries_that_only_the_truth_has():
    truth = bpfa.draw_data(300, 6, 2, g_o=100.0, g_w=1.0, seed=0).y
    missing = np.random.default_rng(0).random(truth.shape) < 0.2
    holes = np.where(missing, np.nan, truth)
    model = bpfa.BPFA(n_components=3, max_steps=60, random_state=0).fit(holes)
    known = truth.copy()
    known[:100] = np.where(missing[:100], np.nan, known[:100])
    page = model_report(model, holes, title="Cells", truth=known)
    assert f"of the variance of {missing[100:].sum():,} entries" in page
    assert "The fit has not seen these entries" in page
    assert "seen in the fit" in model_report(model, holes, title="Cells")
