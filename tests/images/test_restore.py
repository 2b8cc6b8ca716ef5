"""Overlapping predictions are averaged as a plain loop would."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from bpfa import ALGORITHMS, algorithm
from bpfa._support.philox import Stream
from bpfa.backends.cpu import instruction_sets
from bpfa.images import PatchRows
from bpfa.images.canvas import Canvas
from bpfa.images.restore import EMPTY_WEIGHT, NOISE_SHARE, STRIP_PATCHES, PatchDraws, restore, restore_canvas
from bpfa.inference.starts import random_posterior


class Predicted:
    """Predictions that are known: normal numbers, by patch, entry and draw."""

    noise = 0.3

    def __init__(self, rows, n_draws, seed=0):
        scale = np.random.default_rng(seed).uniform(0.1, 2.0, size=(rows.n_rows, rows.n_columns))
        self.all = scale * np.random.default_rng(seed + 1).normal(size=(n_draws, *scale.shape))

    def of(self, batch):
        return iter(self.all[:, batch.ids])


def naive(rows, draws):
    """Every patch, every pixel, every draw, one after another."""
    n_slices, _, _, n_channels = rows.shape
    said = {}
    row = 0
    batch = rows.take(np.arange(rows.n_rows))
    for s in range(n_slices):
        for y in rows.y:
            for x in rows.x:
                predictions = draws.all[:, row].reshape(-1, *rows.size, n_channels)
                empty = not batch.observed[row].any()
                for index in np.ndindex(*rows.size, n_channels):
                    values = predictions[(slice(None), *index)]
                    weight = (EMPTY_WEIGHT if empty else 1.0) / (
                        values.var(ddof=1) + NOISE_SHARE * draws.noise
                    )
                    pixel = (s, y + index[0], x + index[1], index[2])
                    said.setdefault(pixel, []).append((weight, values.mean(), values.var(ddof=1), empty))
                row += 1
    mean, std, informed = np.zeros(rows.shape), np.zeros(rows.shape), np.zeros(rows.shape, dtype=bool)
    for pixel, entries in said.items():
        weight, values, variance, empty = (np.array(column) for column in zip(*entries, strict=True))
        share = weight / weight.sum()
        mean[pixel] = share @ values
        std[pixel] = np.sqrt(share @ (variance + (values - mean[pixel]) ** 2))
        informed[pixel] = not empty.all()
    assert len(said) == mean.size
    return mean, std, informed


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("shape", "size"), [((1, 9, 8, 1), (3, 3)), ((2, 6, 7, 2), (2, 4))])
def test_averaging_equals_a_plain_loop(shape, size, stride):
    rng = np.random.default_rng(0)
    observed = rng.random(shape) < 0.3
    observed[:, :5, :5] = False
    rows = PatchRows(rng.normal(size=shape), observed, size, stride)
    draws = Predicted(rows, n_draws=4)
    restored = restore(rows, draws, rows.strips(10))
    for ours, expected in zip(restored, naive(rows, draws), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-10)
    assert restored.informed.any()
    assert not restored.informed.all()


def test_patches_without_an_observed_pixel_do_not_pull():
    observed = np.zeros((1, 6, 12, 1), dtype=bool)
    observed[:, :, :3] = True
    rows = PatchRows(np.zeros(observed.shape), observed, (3, 3))
    empty = ~rows.take(np.arange(rows.n_rows)).observed.any(axis=1)
    level = np.where(empty, 100.0, 1.0)
    draws = SimpleNamespace(
        noise=1.0, of=lambda batch: iter(np.tile(level[batch.ids][:, None], (2, 1, rows.n_columns)))
    )
    restored = restore(rows, draws, rows.strips(100))
    np.testing.assert_allclose(restored.mean[..., :5, :], 1.0, atol=1e-5)
    np.testing.assert_allclose(restored.mean[..., 5:, :], 100.0)
    assert restored.informed[..., :5, :].all()
    assert not restored.informed[..., 5:, :].any()


@pytest.fixture
def pictures():
    rng = np.random.default_rng(0)
    return PatchRows(rng.normal(size=(1, 12, 11, 1)), rng.random((1, 12, 11, 1)) < 0.6, (3, 3))


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "gibbs"])
def test_every_algorithm_predicts_patches(pictures, name):
    # Little noise and many features on, so that the mean-field kinds have something to draw.
    posterior = random_posterior(pictures, 5, seed=0, noise_share=0.1, features_per_row=2.5)
    draws = PatchDraws(posterior, algorithm(name), n_draws=3, stream=Stream.from_seed(0))
    predictions = list(draws.of(pictures.take(np.arange(7))))
    assert [p.shape for p in predictions] == [(7, 9)] * 3
    assert all((a != b).any() for a, b in pairwise(predictions))
    assert draws.noise == pytest.approx(np.mean([1 / view.g_o for view in draws.views]))


def test_the_size_of_strips_does_not_matter(pictures):
    draws = PatchDraws(
        random_posterior(pictures, 5, seed=0),
        algorithm("gibbs-ssvi"),
        n_draws=3,
        stream=Stream.from_seed(0),
    )
    few, many = (restore(pictures, draws, pictures.strips(n)) for n in (9, 1000))
    for one, other in zip(few, many, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_threads_change_not_a_bit(pictures):
    chosen = algorithm("gibbs-ssvi", n_jobs=1)
    posterior = random_posterior(pictures, 5, seed=0, noise_share=0.1, features_per_row=2.5)
    draws = PatchDraws(posterior, chosen, n_draws=3, stream=Stream.from_seed(0))
    one, *others = (restore(pictures, draws, pictures.strips(9), n_threads=n) for n in (1, 2, 3))
    for other in others:
        for ours, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.fixture
def canvas():
    rng = np.random.default_rng(0)
    mask = rng.random((14, 12)) < 0.4
    mask[:6, :6] = True
    return Canvas.of(rng.normal(size=mask.shape), mask)


@pytest.mark.parametrize("name", ["gibbs-ssvi", "mf-svi"])
def test_a_canvas_is_restored_by_its_patches(canvas, name):
    rows, chosen = canvas.patches((3, 3), 2), algorithm(name, n_jobs=1)
    posterior = random_posterior(rows, 5, seed=0, noise_share=0.1, features_per_row=2.5)
    draws = PatchDraws(posterior, chosen, n_draws=3, stream=Stream.from_seed(0))
    expected = restore(rows, draws, rows.strips(STRIP_PATCHES))
    restored = restore_canvas(canvas, (3, 3), 2, posterior, chosen, n_draws=3, stream=Stream.from_seed(0))
    np.testing.assert_array_equal(restored.informed, expected.informed)
    for ours, theirs in zip(restored[:2], expected[:2], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def observed_of(kind, shape):
    share = {"complete": 1.1, "nearly complete": 0.95, "few": 0.2}[kind]
    observed = np.random.default_rng(1).random(shape) < share
    if kind == "few":
        observed[:, :7, :6] = False
    return observed


@pytest.mark.parametrize("kind", ["complete", "nearly complete", "few"])
@pytest.mark.parametrize(("shape", "size"), [((1, 14, 12, 1), (3, 3)), ((2, 9, 10, 2), (2, 4))])
@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize("n_samples", [1, 3])
def test_the_compiled_restoration_equals_the_specification(kind, shape, size, blocked, n_samples):
    observed = observed_of(kind, shape)
    rows = PatchRows(np.random.default_rng(0).normal(size=shape), observed, size, 2)
    posterior = random_posterior(rows, 70, seed=0, noise_share=0.1, features_per_row=2.5)
    given = {"n_draws": 2, "n_samples": n_samples, "stream": Stream.from_seed(0)}
    options = {"blocked": blocked, "burn_in": 4}
    plain = algorithm("gibbs-ssvi", device="numpy", **options)
    expected = restore(rows, PatchDraws(posterior, plain, **given), rows.strips(10))
    compiled = algorithm("gibbs-ssvi", device="cpu", dtype="float64", n_jobs=1, **options)
    found = compiled.backend.restore_patches(rows, posterior, compiled, **given)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("instruction_set", instruction_sets())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_instruction_set_restores_the_same_picture(instruction_set, dtype):
    shape = (1, 14, 13, 1)
    rows = PatchRows(np.random.default_rng(0).normal(size=shape), observed_of("few", shape), (4, 5))
    posterior = random_posterior(rows, 20, seed=0, noise_share=0.1, features_per_row=2.5)
    given = {"n_draws": 2, "n_samples": 2, "stream": Stream.from_seed(0)}
    plain = algorithm("gibbs-ssvi", device="numpy")
    expected = restore(rows, PatchDraws(posterior, plain, **given), rows.strips(10))
    chosen = algorithm("gibbs-ssvi", device="cpu", dtype=dtype, instruction_set=instruction_set, n_jobs=1)
    found = chosen.backend.restore_patches(rows, posterior, chosen, **given)
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_and_strips_change_not_a_bit_of_the_compiled_restoration(monkeypatch, n_threads):
    shape = (2, 40, 33, 1)
    rows = PatchRows(np.random.default_rng(0).normal(size=shape), observed_of("few", shape), (5, 5))
    posterior = random_posterior(rows, 20, seed=0, noise_share=0.1, features_per_row=2.5)
    chosen = algorithm("gibbs-ssvi", device="cpu", n_jobs=1)
    given = {"n_draws": 2, "n_samples": 2, "stream": Stream.from_seed(0)}
    one = chosen.backend.restore_patches(rows, posterior, chosen, n_threads=1, **given)
    many = chosen.backend.restore_patches(rows, posterior, chosen, n_threads=n_threads, **given)
    for ours, theirs in zip(many, one, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    monkeypatch.setattr("bpfa.backends.cpu.pictures.STRIP_VALUES", 25 * 60)
    strips = chosen.backend.restore_patches(rows, posterior, chosen, n_threads=1, **given)
    for ours, theirs in zip(strips, one, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_all_patches_can_have_equal_weights(canvas):
    rows, chosen = canvas.patches((3, 3)), algorithm("gibbs-ssvi", n_jobs=1)
    posterior = random_posterior(rows, 5, seed=0, noise_share=0.1, features_per_row=2.5)
    equal, weighted = (
        restore_canvas(
            canvas, (3, 3), 1, posterior, chosen, n_draws=3, stream=Stream.from_seed(0), noise_share=share
        )
        for share in (1e9, NOISE_SHARE)
    )
    # The plain mean over the patches that cover a pixel, and have an observed one.
    draws = PatchDraws(posterior, chosen, n_draws=3, stream=Stream.from_seed(0))
    batch = rows.take(np.arange(rows.n_rows))
    patches = np.mean(list(draws.of(batch)), axis=0)
    total, count = np.zeros(rows.shape), np.zeros(rows.shape)
    for patch, first, observed in zip(patches, rows.first_entries(), batch.observed, strict=True):
        if observed.any():
            total.ravel()[first + rows.offsets] += patch
            count.ravel()[first + rows.offsets] += 1
    covered = count > 0
    np.testing.assert_allclose(equal.mean[covered], total[covered] / count[covered], rtol=1e-5, atol=1e-7)
    assert np.abs(weighted.mean - equal.mean).max() > 0.01


def test_several_samples_of_a_chain_under_each_draw(pictures):
    """The first sample is that of a chain with one; the others follow from it, one sweep after another."""
    posterior, batch = random_posterior(pictures, 5, seed=0), pictures.take(np.arange(7))
    one, three = (
        list(
            PatchDraws(
                posterior,
                algorithm("gibbs-ssvi", device="numpy"),
                n_draws=2,
                n_samples=n,
                stream=Stream.from_seed(0),
            ).of(batch)
        )
        for n in (1, 3)
    )
    assert (len(one), len(three)) == (2, 6)
    for m in range(2):
        np.testing.assert_allclose(three[3 * m], one[m])
        assert all((a != b).any() for a, b in pairwise(three[3 * m : 3 * m + 3]))
