"""Signals of HyperSpy in and out: classes, axes, units, metadata, lazy signals, masks, decompositions."""

import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from bpfa import BPFA, denoise, inpaint
from bpfa.images import FrameRestorer, masks
from bpfa.images.files import Picture
from bpfa.images.signals import SignalAxes
from bpfa.report import image_report

with warnings.catch_warnings():
    # Its own deprecated imports.
    warnings.simplefilter("ignore")
    hs = pytest.importorskip("hyperspy.api")
    exspy = pytest.importorskip("exspy")

pytestmark = pytest.mark.filterwarnings(
    "ignore::Warning:hyperspy", "ignore::Warning:exspy", "ignore::Warning:dask"
)
SMALL = {"patch_size": 4, "n_components": 12, "max_steps": 80, "refine": None, "random_state": 0, "n_jobs": 1}
SHAPE = (24, 20)


def picture(shape=SHAPE):
    y, x = np.mgrid[: shape[0], : shape[1]]
    return 50 + 20 * np.sin(x / 2) + 10 * np.cos((x + 2 * y) / 3)


def spectrum_image(n_channels=30, shape=SHAPE):
    energy = np.arange(n_channels)
    peaks = [np.exp(-(((energy - n_channels * at) / (0.1 * n_channels)) ** 2)) for at in (0.3, 0.6)]
    y, x = np.mgrid[: shape[0], : shape[1]]
    return (
        5 + (20 + 10 * np.sin(x / 3))[..., None] * peaks[0] + (15 + 10 * np.cos(y / 4))[..., None] * peaks[1]
    )


def image(data=None):
    signal = hs.signals.Signal2D(picture() if data is None else data)
    for axis, name in zip(signal.axes_manager.signal_axes, "xy", strict=True):
        axis.name, axis.units, axis.scale, axis.offset = name, "nm", 0.25, 3.0
    signal.metadata.General.title = "a sample"
    signal.metadata.set_item("Acquisition_instrument.TEM.beam_energy", 200.0)
    return signal


def eels(n_channels=30):
    signal = exspy.signals.EELSSpectrum(spectrum_image(n_channels))
    signal.axes_manager[0].units = "nm"
    energy = signal.axes_manager[-1]
    energy.name, energy.units, energy.scale, energy.offset = "Energy loss", "eV", 0.5, 400.0
    return signal


def scan(dose=0.5, seed=0):
    return masks.random(SHAPE, dose, seed=seed)


def assert_same_kind(ours, theirs):
    assert type(ours) is type(theirs)
    for mine, other in zip(ours.axes_manager._axes, theirs.axes_manager._axes, strict=True):
        for name in ("name", "units", "scale", "offset", "size", "navigate"):
            assert getattr(mine, name) == getattr(other, name), name
    assert ours.metadata.Signal.as_dictionary() == theirs.metadata.Signal.as_dictionary()


def test_an_image():
    signal, mask = image(), scan()
    result = inpaint(signal, mask, **SMALL)
    plain = inpaint(signal.data, mask, **SMALL)
    assert_same_kind(result.image, signal)
    assert_same_kind(result.std, signal)
    assert result.image.metadata.as_dictionary() == signal.metadata.as_dictionary()
    assert result.std.metadata.General.title == "a sample (standard deviation)"
    np.testing.assert_array_equal(result.image.data, plain.image)
    np.testing.assert_array_equal(result.std.data, plain.std)
    np.testing.assert_array_equal(signal.data, picture())
    assert image_report(result, Picture(Path("a.hspy"), signal.data)).startswith("<!doctype html>")


def test_masks_may_be_signals():
    mask = scan()
    for given in (hs.signals.BaseSignal(mask.missing), hs.signals.BaseSignal(mask.missing).T):
        result = inpaint(image(), given, **SMALL)
        np.testing.assert_array_equal(result.missing, mask.missing)
    np.testing.assert_array_equal(
        inpaint(picture(), hs.signals.Signal2D(mask.missing), **SMALL).missing, mask.missing
    )


def test_a_stack_of_images_shares_its_dictionary():
    stack = np.stack([picture(), picture()[::-1], picture()[:, ::-1]])
    result = denoise(image(stack), **SMALL)
    plain = denoise(stack, stack_axis=0, **SMALL)
    assert_same_kind(result.image, image(stack))
    np.testing.assert_array_equal(result.image.data, plain.image)


def test_few_energies_are_channels():
    signal = eels()
    result = inpaint(signal, scan(), **SMALL)
    plain = inpaint(signal.data, scan(), channel_axis=2, **SMALL)
    assert_same_kind(result.image, signal)
    np.testing.assert_array_equal(result.image.data, plain.image)


@pytest.mark.parametrize("lazy", [False, True])
def test_many_energies_are_restored_in_components(lazy):
    signal, mask = eels(200), scan()
    truth = signal.data.copy()
    signal.data = truth + np.random.default_rng(0).normal(size=truth.shape)
    given = signal.as_lazy() if lazy else signal
    result = inpaint(given, mask, **SMALL)
    assert_same_kind(result.image, given)
    assert result.image._lazy == lazy
    restored, std = np.asarray(result.image.data), np.asarray(result.std.data)
    np.testing.assert_array_equal(restored[~mask.missing], signal.data[~mask.missing])
    assert (std[~mask.missing] == 0).all()
    assert result.missing.shape == signal.data.shape
    errors = (restored - truth)[mask.missing]
    # The components are those of two peaks: far less noise than there was.
    assert np.sqrt((errors**2).mean()) < 0.5 * truth.std()
    assert result.model.n_features_in_ == 16 * 2


@pytest.mark.parametrize("lazy", [False, True])
def test_a_4d_scan_is_restored_in_components_of_its_detector(lazy):
    y, x, v, u = np.mgrid[:16, :14, :12, :10]
    truth = 20 + 10 * np.sin(x / 3) * np.exp(-((u - 3) ** 2 + (v - 4) ** 2) / 9) + 5 * np.cos(y / 3) * (u > 6)
    signal = hs.signals.Signal2D(np.random.default_rng(0).poisson(truth).astype(np.uint16))
    given = signal.as_lazy() if lazy else signal
    mask = masks.random((16, 14), 0.5, seed=1)
    result = inpaint(given, mask, noise_model="poisson", **SMALL)
    assert_same_kind(result.image, given)
    assert result.image.data.dtype == np.uint16
    restored = np.asarray(result.image.data).astype(float)
    np.testing.assert_array_equal(restored[~mask.missing], signal.data[~mask.missing])
    mean = np.broadcast_to(signal.data[~mask.missing].mean(axis=0), truth.shape)
    ours, theirs = (np.square(found - truth)[mask.missing].mean() for found in (restored, mean))
    assert ours < 0.7 * theirs


def test_lazy_images_stay_lazy():
    lazy = image().as_lazy()
    result = inpaint(lazy, scan(), **SMALL)
    assert result.image._lazy
    assert type(result.image) is type(lazy)
    np.testing.assert_array_equal(result.image.data.compute(), inpaint(picture(), scan(), **SMALL).image)


def test_counts():
    counts = np.random.default_rng(0).poisson(picture())
    result = denoise(image(counts), noise_model="poisson", gain=1.0, **SMALL)
    assert result.noise_model == "poisson"
    assert np.square(result.image.data - picture()).mean() < 0.8 * np.square(counts - picture()).mean()


@pytest.mark.parametrize(
    ("make", "mask", "options", "words"),
    [
        (lambda: hs.signals.Signal1D(np.arange(9.0)), None, {}, "0 axes of navigation and 1 of the signal"),
        (image, scan().missing, {"channel_axis": 0}, "a signal knows its axes"),
        (lambda: eels(100), np.arange(100) > np.ones((*SHAPE, 1)), {}, "some channels of a position"),
        (lambda: eels(100), np.ones((3, 3), dtype=bool), {}, r"shape \(3, 3\); expected \(24, 20\)"),
        (lambda: eels(100), np.ones(SHAPE, dtype=bool), {}, "0 spectra are observed"),
    ],
)
def test_what_cannot_be_restored(make, mask, options, words):
    with pytest.raises(ValueError, match=words):
        inpaint(make(), mask, **SMALL, **options)


def test_axes():
    assert SignalAxes.of_dimensions(3, 1).options() == {"stack_axis": 0, "channel_axis": 3}
    assert SignalAxes.of_dimensions(1, 1) == SignalAxes(0, 2, 0)


# Before 2.5, HyperSpy decomposes lazy signals by its own algorithms only, and refuses every estimator.
NEEDS_2_5 = pytest.mark.skipif(
    tuple(map(int, version("hyperspy").split(".")[:2])) < (2, 5), reason="needs HyperSpy 2.5"
)


@pytest.mark.parametrize("lazy", [False, pytest.param(True, marks=NEEDS_2_5)])
def test_hyperspy_decomposes_by_bpfa(lazy):
    signal = eels()
    signal.data = np.random.default_rng(0).poisson(signal.data).astype(float)
    given = signal.as_lazy() if lazy else signal
    hidden = scan(0.8).missing
    model = BPFA(6, max_steps=60, random_state=0, n_jobs=1)
    given.decomposition(
        normalize_poissonian_noise=True,
        algorithm=model,
        output_dimension=6,
        navigation_mask=hs.signals.BaseSignal(hidden).T,
        print_info=False,
    )
    found = given.learning_results
    factors, loadings = np.asarray(found.factors), np.asarray(found.loadings)
    assert factors.shape == (30, 6)
    seen = ~hidden.ravel()
    # Loadings times factors are the spectra without their mean, with much less of the noise of counts.
    truth = spectrum_image().reshape(-1, 30)[seen]
    noise = signal.data.reshape(-1, 30)[seen] - truth
    rebuilt = loadings[seen] @ factors.T
    errors = (rebuilt - rebuilt.mean(axis=0)) - (truth - truth.mean(axis=0))
    assert np.square(errors).sum() < 0.5 * np.square(noise).sum()


def three_peaks(seed, n_channels=200):
    """Another region of the same sample: the same peaks, elsewhere."""
    energy, rng = np.arange(n_channels), np.random.default_rng(seed)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    weights = [20 + 10 * np.sin((x + seed) / 3), 15 + 10 * np.cos((y + 2 * seed) / 4)]
    peaks = [np.exp(-(((energy - n_channels * at) / (0.1 * n_channels)) ** 2)) for at in (0.3, 0.6)]
    truth = 5 + sum(weight[..., None] * peak for weight, peak in zip(weights, peaks, strict=True))
    return truth, exspy.signals.EELSSpectrum(truth + rng.normal(size=truth.shape))


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("saved", [False, True])
def test_a_kept_model_restores_other_spectra(tmp_path, lazy, saved):
    (_, first), (truth, second) = three_peaks(0), three_peaks(5)
    options = {name: SMALL[name] for name in ("refine", "n_jobs")}
    model = inpaint(first, scan(), **SMALL).model
    if saved:
        model.save(tmp_path / "m.bpfa")
        model = BPFA.load(tmp_path / "m.bpfa")
    given = second.as_lazy() if lazy else second
    result = inpaint(given, scan(seed=1), model=model, **options)
    assert_same_kind(result.image, given)
    assert result.model.n_steps_ == model.n_steps_
    missing = scan(seed=1).missing
    restored = np.asarray(result.image.data)
    np.testing.assert_array_equal(restored[~missing], second.data[~missing])
    errors = (restored - truth)[missing]
    new = np.asarray(inpaint(second, scan(seed=1), **SMALL).image.data)
    assert np.square(errors).mean() < 1.5 * np.square((new - truth)[missing]).mean()
    # The model that has learned from the second region still knows the components.
    updated = inpaint(given, scan(seed=1), model=model, update=5, **options).model
    assert updated.n_steps_ == model.n_steps_ + 5
    assert inpaint(first, scan(), model=updated, **options).image.data.shape == first.data.shape


def test_a_kept_model_of_counts_knows_that_they_are_counts():
    truth, _ = three_peaks(0)
    counts = [
        exspy.signals.EDSTEMSpectrum(np.random.default_rng(seed).poisson(truth).astype(float))
        for seed in range(2)
    ]
    options = {name: SMALL[name] for name in ("refine", "n_jobs")}
    model = denoise(counts[0], noise_model="poisson", **SMALL).model
    result = denoise(counts[1], model=model, **options)
    assert result.noise_model == "poisson"
    ours, theirs = (np.square(found.data - truth).mean() for found in (result.image, counts[1]))
    assert ours < 0.3 * theirs
    with pytest.raises(ValueError, match="noise_model='poisson': the kept model has decided this already"):
        denoise(counts[1], model=model, noise_model="poisson", **options)


def test_kept_models_of_other_data_are_refused():
    options = {name: SMALL[name] for name in ("refine", "n_jobs")}
    _, spectra = three_peaks(0)
    of_spectra = inpaint(spectra, scan(), **SMALL).model
    of_a_picture = inpaint(picture(), scan(), **SMALL).model
    for given, model, words in (
        (spectra, of_a_picture, "model: not learned from spectra in components"),
        (image(), of_spectra, "model: learned from maps of the components of spectra with 200 channels"),
        (eels(30), of_spectra, "model: learned from maps of the components of spectra with 200 channels"),
        (eels(150), of_spectra, "image: 150 channels; expected 200, as the spectra of the model have"),
        (eels(200), of_spectra, None),
        (eels(200) * 1e4, of_spectra, "expected a picture in the units of the model"),
        (
            spectra,
            BPFA(2, max_steps=2).fit(np.random.default_rng(0).normal(size=(20, 3))),
            "not learned from",
        ),
    ):
        if words is None:
            inpaint(given, scan(), model=model, **options)
            continue
        with pytest.raises(ValueError, match=words):
            inpaint(given, scan(), model=model, **options)
    with pytest.raises(ValueError, match="model: learned from maps of the components"):
        FrameRestorer(of_spectra)


@pytest.mark.parametrize("lazy", [False, pytest.param(True, marks=NEEDS_2_5)])
def test_masks_and_weights_of_a_decomposition_reach_bpfa(lazy):
    """What the masks leave out is spoilt, and must not matter; Poisson weights make the noise equal."""
    signal = eels()
    counts = np.random.default_rng(0).poisson(signal.data).astype(float)
    hidden, dead = scan(0.8).missing, np.arange(30) == 12
    signal.data = np.where(hidden[..., None] | dead, 1e5, counts)
    given = signal.as_lazy() if lazy else signal
    seen = []

    class Watched(BPFA):
        def fit(self, X, *arguments, **options):
            seen.append(np.asarray(X))
            return super().fit(X, *arguments, **options)

        def partial_fit(self, X, *arguments, **options):
            seen.append(np.asarray(X))
            return super().partial_fit(X, *arguments, **options)

    given.decomposition(
        normalize_poissonian_noise=True,
        algorithm=Watched(6, max_steps=60, random_state=0, n_jobs=1),
        output_dimension=6,
        navigation_mask=hs.signals.BaseSignal(hidden).T,
        signal_mask=hs.signals.BaseSignal(dead),
        print_info=False,
    )
    rows = np.concatenate(seen)
    kept = counts[~hidden][:, ~dead]
    weights = np.sqrt(np.outer(kept.sum(axis=1), kept.sum(axis=0)) / kept.sum())
    ratio = rows * weights / np.maximum(kept, 1)
    np.testing.assert_allclose(ratio[kept > 0], np.median(ratio))
    factors = np.asarray(given.learning_results.factors)
    loadings = np.asarray(given.learning_results.loadings)
    assert np.isnan(factors[dead]).all()
    rebuilt = loadings[~hidden.ravel()] @ factors[~dead].T
    truth = spectrum_image()[~hidden][:, ~dead]
    errors = (rebuilt - rebuilt.mean(axis=0)) - (truth - truth.mean(axis=0))
    assert np.square(errors).sum() < 0.5 * np.square(kept - truth).sum()
