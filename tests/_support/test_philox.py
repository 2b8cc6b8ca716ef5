import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.special import ndtri

from bpfa._support import _native
from bpfa._support.philox import GENERATOR, GLOBAL, NORMAL, UNIFORM, GlobalDraws, RowDraws, Stream, philox4x32


def philox4x32_cpu(counters, key):
    words = counters.copy()
    _native.philox4x32(words, key)
    return words


def words_of(text):
    return [int(word, 16) for word in text.split()]


# kat_vectors of Random123: counter, key (low word first), block
KNOWN_ANSWERS = [
    ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize("philox", [philox4x32, philox4x32_cpu])
@pytest.mark.parametrize(("counter", "key", "block"), KNOWN_ANSWERS)
def test_published_vectors(philox, counter, key, block):
    low, high = words_of(key)
    counters = np.array([words_of(counter)], dtype=np.uint32)
    assert philox(counters, low | high << 32).tolist() == [words_of(block)]


@given(
    counters=arrays(np.uint32, st.tuples(st.integers(0, 20), st.just(4))),
    key=st.integers(0, 2**64 - 1),
)
def test_numpy_and_cpu_agree_bit_for_bit(counters, key):
    np.testing.assert_array_equal(philox4x32(counters, key), philox4x32_cpu(counters, key))


def test_layout_of_the_counter():
    """The words as the head of philox.py lays them out, which every kernel must repeat."""
    row, step, sweep, n_features = 5 + (7 << 32), 11, 3, 200
    words = RowDraws(99, np.array([row]), step).words(NORMAL, sweep, n_features)[0]
    for k in (0, 15, 16, 63, 64, 130, 199):
        counter = [16 * (k // 64) + k % 16, sweep | NORMAL << 16 | 7 << 24, 5, step]
        assert words[k] == philox4x32(np.array(counter, dtype=np.uint32), 99)[(k % 64) // 16]


def test_draws_do_not_depend_on_how_rows_are_split():
    ids = np.array([9, 0, 2**40 - 1, 4])
    stream = Stream.from_seed(3)
    whole = stream.rows(ids, step=2)
    for draw in (RowDraws.uniform, RowDraws.normal):
        parts = [draw(stream.rows(part, step=2), 5, 70) for part in (ids[:1], ids[1:])]
        np.testing.assert_array_equal(draw(whole, 5, 70), np.concatenate(parts))


def test_draws_do_not_depend_on_the_number_of_features():
    draws = Stream.from_seed(3).rows(np.arange(4), step=2)
    np.testing.assert_array_equal(draws.uniform(1, 200)[:, :33], draws.uniform(1, 33))


def test_every_draw_has_its_own_word():
    # 8320 words: two of them agree by chance once in 120 seeds.
    ids = np.array([0, 1, 2**32, 2**40 - 1])
    root = Stream.from_seed(0)
    words = [
        stream.rows(ids, step).words(kind, sweep, 65)
        for stream in (root, Stream.from_seed(1), root.child("local"), root.child("global"))
        for step in (1, 2)
        for kind in (UNIFORM, NORMAL)
        for sweep in (1, 2**16 - 1)
    ]
    assert np.unique(words).size == np.size(words) == 8320


@pytest.mark.parametrize(("draw", "cdf"), [(RowDraws.uniform, "uniform"), (RowDraws.normal, "norm")])
def test_distribution(draw, cdf):
    draws = Stream.from_seed(1).rows(np.arange(1000), step=1)
    numbers = np.array([draw(draws, sweep, 50) for sweep in (1, 2)])
    assert stats.kstest(numbers.ravel(), cdf).pvalue > 0.01
    # Neighbours along every axis of the counter are uncorrelated, to four standard errors.
    for axis in range(3):
        a, b = np.take(numbers, range(1, numbers.shape[axis]), axis), np.delete(numbers, -1, axis)
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 4 * a.size**-0.5


def test_uniform_and_normal_of_one_sweep_are_independent():
    draws = Stream.from_seed(1).rows(np.arange(1000), step=1)
    correlation = stats.spearmanr(draws.uniform(1, 50).ravel(), draws.normal(1, 50).ravel())
    assert correlation.pvalue > 0.01


def test_never_exactly_zero_or_one(monkeypatch):
    extremes = np.array([[0, 0xFFFFFFFF]], dtype=np.uint32)
    monkeypatch.setattr(RowDraws, "words", lambda *_: extremes)
    draws = Stream.from_seed(0).rows(np.array([0]), step=0)
    uniform, normal = draws.uniform(1, 2), draws.normal(1, 2)
    assert ((uniform > 0) & (uniform < 1)).all()
    assert np.isfinite(normal).all()
    np.testing.assert_allclose(normal[0, 0], -normal[0, 1])


def test_generators_are_keyed_by_seed_purpose_and_step():
    root = Stream.from_seed(5)
    streams = (root, Stream.from_seed(6), root.child("a"), root.child("b"), root.child("a longer purpose"))
    first = [stream.generator(step).random() for stream in streams for step in (0, 1, 2**32)]
    assert len(set(first)) == len(first)
    assert root.child("a").generator(1).random() == Stream.from_seed(5).child("a").generator(1).random()


def test_no_seed_is_fresh_entropy():
    assert Stream.from_seed(None) != Stream.from_seed(None)


@pytest.mark.parametrize("step", [0, 3, 2**33 + 1])
def test_a_generator_is_seeded_by_the_block_of_its_step(step):
    counter = np.array([0, GENERATOR << 16, step >> 32, step & 0xFFFFFFFF], dtype=np.uint32)
    expected = np.random.default_rng(philox4x32(counter, 12345)).random(4)
    np.testing.assert_array_equal(Stream(12345).generator(step).random(4), expected)


def _uniform_of(words):
    return (words.astype(np.float64) + 0.5) * 2.0**-32


def _global_words(key, step, call, attempt, n_blocks):
    counters = np.empty((n_blocks, 4), dtype=np.uint32)
    counters[:, 0] = np.arange(n_blocks)
    counters[:, 1:] = GLOBAL << 16 | attempt, call, step & 0xFFFFFFFF
    return philox4x32(counters, key)


def _gamma_by_definition(shapes, key, step, call):
    """Marsaglia and Tsang's method, one attempt after another for all numbers at once."""
    small = shapes < 1
    d = np.where(small, shapes + 1, shapes) - 1 / 3
    draws = np.full(d.shape, np.nan)
    for attempt in range(100):
        words = _global_words(key, step, call, attempt, len(d))
        normal, u = ndtri(_uniform_of(words[:, 0])), _uniform_of(words[:, 1])
        v = (1 + normal / np.sqrt(9 * d)) ** 3
        positive = np.where(v > 0, v, 1.0)
        accepted = (v > 0) & (np.log(u) < 0.5 * normal**2 + d - d * positive + d * np.log(positive))
        draws = np.where(np.isnan(draws) & accepted, d * v, draws)
    boost = _uniform_of(_global_words(key, step, call, 0, len(d))[:, 2])
    return np.where(small, draws * boost ** (1 / shapes), draws)


@pytest.mark.parametrize("shape", [0.02, 0.5, 1.0, 2.5, 4000.0, 1e8])
def test_gamma_numbers_are_those_of_the_definition(shape):
    shapes = shape * np.linspace(1, 2, 2000)
    key, step = 2**63 + 12345, 2**32 + 7
    draws = GlobalDraws(key, step)
    draws.standard_normal(3)
    np.testing.assert_allclose(
        draws.standard_gamma(shapes), _gamma_by_definition(shapes, key, step, call=1), rtol=1e-12
    )
    assert draws.n_calls == 2


@pytest.mark.parametrize("shape", [0.3, 1.5, 40.0])
def test_gamma_numbers_have_their_distribution(shape):
    draws = GlobalDraws(5, step=1).standard_gamma(np.full(20_000, shape))
    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 0.001


def test_gamma_numbers_keep_the_shape_of_the_array_and_refuse_what_is_not_finite():
    shapes = np.array([[1.0, np.nan, 2.0], [np.inf, 3.0, 0.5]])
    draws = GlobalDraws(7, step=1).standard_gamma(shapes.T)
    np.testing.assert_array_equal(np.isnan(draws), ~np.isfinite(shapes.T))
    assert GlobalDraws(7, step=1).standard_gamma(np.float64(2.0)).shape == ()


@pytest.mark.parametrize("size", [1, 6, (3, 5), (0,)])
def test_uniform_numbers_of_the_globals_are_those_of_the_definition(size):
    draws = GlobalDraws(11, step=2**33 + 3)
    found = np.exp(-draws.standard_exponential(size))
    n = int(np.prod(size))
    expected = _uniform_of(_global_words(11, 2**33 + 3, 0, 0, -(-n // 4))).ravel()[:n].reshape(size)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 6, (3, 5), (0,)])
def test_normal_numbers_of_the_globals_are_those_of_the_definition(size):
    found = GlobalDraws(11, step=2**33 + 3).standard_normal(size)
    n = int(np.prod(size))
    expected = _uniform_of(_global_words(11, 2**33 + 3, 0, 0, -(-n // 4))).ravel()[:n].reshape(size)
    np.testing.assert_array_equal(found, ndtri(expected))


def test_a_gamma_number_is_the_first_of_an_array():
    one, many = GlobalDraws(7, step=3), GlobalDraws(7, step=3)
    for shape in (0.3, 2.0, np.nan):
        np.testing.assert_array_equal(one.gamma(shape), many.standard_gamma(np.array([shape, 1.0]))[0])
