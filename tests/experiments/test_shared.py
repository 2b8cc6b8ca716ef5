"""What the paper's experiments and the benchmarks share: restored pictures, files and pages."""

import json

import numpy as np
import pytest
from PIL import Image

from benchmarks.pages import SECTIONS
from benchmarks.readme import WRITERS
from bpfa import algorithm
from bpfa._support.philox import Stream
from bpfa.images import PatchRows
from bpfa.images.canvas import Canvas
from bpfa.images.restore import STRIP_PATCHES, PatchDraws, restore
from bpfa.inference.starts import random_posterior
from experiments.cells import Cell, Context, Store, write_results
from experiments.markdown import END
from experiments.pictures import PictureTask, hide_pixels, restored_picture
from experiments.runs import run_cells


def test_a_picture_is_restored_from_a_posterior():
    rng = np.random.default_rng(0)
    seen = rng.uniform(0, 255, size=(12, 10))
    canvas = Canvas.of(seen, rng.random(seen.shape) < 0.5)
    rows = PatchRows(canvas.values, canvas.observed, (4, 4), 2)
    posterior, chosen = random_posterior(rows, 5, seed=0), algorithm("gibbs-ssvi", n_jobs=1)
    draws = PatchDraws(posterior, chosen, n_draws=3, stream=Stream.from_seed(0))
    expected = canvas.image(restore(rows, draws, rows.strips(STRIP_PATCHES)).mean)
    settings = {"patch_size": 4, "stride": 2, "n_draws": 3, "stream": Stream.from_seed(0)}
    # The compiled code of whole pictures adds in another order than the strips do.
    np.testing.assert_allclose(restored_picture(canvas, posterior, chosen, **settings), expected, rtol=1e-6)
    # Weights of overlapping patches that differ give another picture.
    equal = restored_picture(canvas, posterior, chosen, **settings, noise_factor=1e6)
    assert np.abs(equal - expected).max() > 1e-3


def test_hidden_pixels_are_those_of_the_seed(tmp_path):
    (tmp_path / "images").mkdir()
    original = np.random.default_rng(0).integers(0, 256, size=(60, 50)).astype(np.uint8)
    Image.fromarray(original).save(tmp_path / "images" / "house.png")
    task = PictureTask("house", 0.2, 15.0)
    truth, seen, missing = hide_pixels(task, tmp_path, 3)
    np.testing.assert_array_equal(truth, original)
    np.testing.assert_array_equal(np.isnan(seen), missing)
    assert missing.mean() == pytest.approx(0.8, abs=0.03)
    assert (seen - truth)[~missing].std() == pytest.approx(15.0, rel=0.1)
    np.testing.assert_array_equal(hide_pixels(task, tmp_path, 3).seen, seen)
    assert (hide_pixels(task, tmp_path, 4).missing != missing).any()
    assert task.file.missing_from(tmp_path) is None


def test_results_that_cannot_be_written_leave_the_earlier_ones(tmp_path):
    path = tmp_path / "new" / "results.json"
    write_results(path, {"rows": [1]})
    with pytest.raises(TypeError):
        write_results(path, {"rows": [object()]})
    assert json.loads(path.read_text()) == {"rows": [1]}
    assert list(path.parent.iterdir()) == [path]


def square(settings, context):
    if settings["value"] == 3:
        raise ValueError("three")
    return {"value": settings["value"] ** 2}


def test_cells_run_in_processes(tmp_path):
    cells = [Cell(str(n), {"value": n}) for n in range(5)]
    store, context = Store(tmp_path / "cells.json"), Context(tmp_path, tmp_path)
    store.plan([cell.name for cell in cells])
    finished = list(run_cells(cells, square, store, context, jobs=2, budgets={}))
    assert {end.cell.name: end.error for end in finished if end.record is None} == {"3": "ValueError: three"}
    stored = Store(store.path).records
    assert [(name, record["result"]["value"]) for name, record in stored.items()] == [
        ("0", 0), ("1", 1), ("2", 4), ("4", 16),
    ]  # fmt: skip


def test_every_section_of_the_benchmarks_has_its_markers_on_its_page():
    assert WRITERS.keys() == SECTIONS.keys()
    for name, section in SECTIONS.items():
        _, marker, after = section.page.read_text().partition(f"<!-- {name} -->")
        assert marker, f"{section.page}: no marker for {name}"
        assert f"<!-- {name} -->" not in after
        content, end, _ = after.partition(END)
        assert end, f"{section.page}: the section {name} has no end"
        assert "<!--" not in content
