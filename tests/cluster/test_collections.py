"""Collections of all kinds, lazy predictions, and input that cannot be used; no worker is needed."""

import logging

import dask
import dask.array
import dask.dataframe
import numpy as np
import pandas
import pytest
from cluster_settings import FIT

import bpfa
from bpfa.cluster.collections import open_collection
from bpfa.cluster.rows import ChunkedRows
from bpfa.estimator.hidden_entries import SeenInFitWarning

FEW = FIT | {"max_steps": 3, "n_components": 2}


@pytest.fixture(scope="module")
def model(table):
    return bpfa.BPFA(**FIT | {"max_steps": 20, "held_out": 0.05, "groups": False}).fit(table)


@pytest.fixture(scope="module")
def new_rows():
    values = bpfa.draw_data(700, 8, 4, g_o=50.0, g_w=1.0, seed=1).y
    values[::7, 3] = np.nan
    return values


def test_predictions_are_lazy_with_the_same_chunks_and_the_bits_of_those_in_memory(model, new_rows):
    lazy = dask.array.from_array(new_rows, chunks=(200, 8))
    weights, (filled, std) = model.transform(lazy), model.impute(lazy, return_std=True)
    for found, expected in (
        (weights, model.transform(new_rows)),
        (filled, model.impute(new_rows)),
        (std, model.impute(new_rows, return_std=True)[1]),
    ):
        assert found.chunks[0] == lazy.chunks[0]
        np.testing.assert_array_equal(found.compute(), expected)
    score = model.score(lazy)
    assert score.shape == ()
    np.testing.assert_allclose(score.compute(), model.score(new_rows), rtol=1e-12)
    single = model.transform(lazy.astype(np.float32))
    assert single.dtype == single.compute().dtype == np.float32


def test_the_data_of_the_fit_are_scored_by_what_it_has_held_out(model, table):
    lazy = dask.array.from_array(table, chunks=(1000, 8))
    np.testing.assert_allclose(model.score(lazy).compute(), model.score(table), rtol=1e-12)
    with pytest.warns(SeenInFitWarning):
        model.score(lazy[:2000]).compute(scheduler="synchronous")


def test_dataframes_keep_their_partitions_index_and_columns(new_rows):
    names = [f"c{i}" for i in range(8)]
    frame = pandas.DataFrame(new_rows, columns=names, index=[f"r{i:03}" for i in range(700)])
    lazy = dask.dataframe.from_pandas(frame, npartitions=3)
    fitted = bpfa.BPFA(**FEW).fit(lazy)
    assert list(fitted.feature_names_in_) == names
    filled, std = fitted.impute(lazy, return_std=True)
    assert filled.npartitions == lazy.npartitions
    expected, expected_std = fitted.impute(frame, return_std=True)
    pandas.testing.assert_frame_equal(filled.compute(), expected, check_dtype=False, check_index_type=False)
    pandas.testing.assert_frame_equal(std.compute(), expected_std, check_dtype=False, check_index_type=False)
    weights = fitted.transform(lazy).compute()
    assert list(weights.columns) == ["bpfa0", "bpfa1"]
    assert list(weights.index) == list(frame.index)
    with pytest.raises(ValueError, match="expected the 8 columns of the fit"):
        fitted.transform(lazy[names[::-1]])


def test_a_mask_of_missing_entries_goes_with_an_array(table):
    masked = np.zeros(table.shape, dtype=bool)
    masked[:, 0] = np.arange(len(table)) % 2 == 0
    lazy = dask.array.from_array(np.nan_to_num(table), chunks=(1500, 8))
    by_mask = bpfa.BPFA(**FEW).fit(lazy, missing=masked)
    by_nan = bpfa.BPFA(**FEW).fit(dask.array.where(masked, np.nan, lazy))
    np.testing.assert_array_equal(by_mask.components_, by_nan.components_)
    with pytest.raises(ValueError, match="missing: bool of shape"):
        bpfa.BPFA(**FEW).fit(lazy, missing=masked[:5])


def test_columns_in_several_chunks_are_joined(table, caplog):
    lazy = dask.array.from_array(table, chunks=(1500, 3))
    with caplog.at_level(logging.WARNING, logger="bpfa"):
        split = bpfa.BPFA(**FEW).fit(lazy)
    assert "the columns are in 3 chunks, which are joined now; X.rechunk({1: -1}) does it once" in caplog.text
    whole = bpfa.BPFA(**FEW).fit(dask.array.from_array(table, chunks=(1500, 8)))
    np.testing.assert_array_equal(split.components_, whole.components_)


def test_unknown_sizes_of_chunks_are_computed_with_a_warning(table):
    lazy = dask.array.from_array(table, chunks=(1500, 8))
    some = lazy[lazy[:, 0] > 0]
    with pytest.warns(UserWarning, match=r"X.compute_chunk_sizes\(\) does it once for all"):
        found = bpfa.BPFA(**FEW).fit(some)
    known = bpfa.BPFA(**FEW).fit(some.compute_chunk_sizes())
    np.testing.assert_array_equal(found.components_, known.components_)


def test_chunks_without_rows_or_without_observed_entries_are_fine(table):
    hidden = table.copy()
    hidden[1500:3000] = np.nan
    lazy = dask.array.from_array(hidden, chunks=(1500, 8))
    empty = dask.array.concatenate([lazy[:1500], lazy[:0], lazy[1500:]])
    a, b = bpfa.BPFA(**FEW).fit(lazy), bpfa.BPFA(**FEW).fit(empty)
    np.testing.assert_array_equal(a.components_, b.components_)
    assert a.transform(empty).compute().shape == (6000, 2)
    with pytest.raises(ValueError, match="every entry is missing"):
        bpfa.BPFA(**FEW).fit(dask.array.full((100, 3), np.nan, chunks=(50, 3)))
    with pytest.raises(ValueError, match="no rows, or no columns"):
        bpfa.BPFA(**FEW).fit(lazy[:0])


def partitions(*frames):
    meta = frames[0].iloc[:0]
    return dask.dataframe.from_delayed([dask.delayed(f) for f in frames], meta=meta, verify_meta=False)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (pandas.DataFrame({"a": [1.0], "c": [2.0]}), "partition 1: its columns are not those of the first"),
        (pandas.DataFrame({"b": [1.0], "a": [2.0]}), "has another order"),
        (pandas.DataFrame({"a": ["x"], "b": [2.0]}), "partition 1: column 'a' has the dtype"),
    ],
)
def test_partitions_that_differ_are_named(second, message):
    first = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]})
    with pytest.raises(ValueError, match=message):
        bpfa.BPFA(**FEW).fit(partitions(first, second))


def test_partitions_of_different_dtypes_are_fine():
    rng = np.random.default_rng(0)
    frames = [
        pandas.DataFrame({"a": rng.normal(size=50), "b": rng.normal(size=50)}).astype(dtype)
        for dtype in ("float64", "float32")
    ] + [pandas.DataFrame({"a": [1, None, 3], "b": [4, 5, 6]}, dtype="Int64")]
    assert bpfa.BPFA(**FEW).fit(partitions(*frames)).n_rows_seen_ == 103


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda x: x[:, 0], ValueError, "X: 1 axes; expected rows x columns"),
        (lambda x: x.astype(str), TypeError, "X: dtype <U32; expected real numbers"),
        (lambda x: dask.array.where(x > 3, np.inf, x), ValueError, r"X: inf at row \d+, column \d"),
        (lambda x: dask.bag.from_sequence([1]), TypeError, "X: Bag; expected a Dask array or dataframe"),
    ],
)
def test_bad_collections_are_refused(table, change, error, message):
    import dask.bag

    with pytest.raises(error, match=message):
        bpfa.BPFA(**FEW).fit(change(dask.array.from_array(table, chunks=(1500, 8))))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"algorithm": "gibbs"}, "algorithm='gibbs': the sampler needs all rows in one process"),
        ({"sparse": "columns"}, "sparse='columns': the table has to be in the memory of one process"),
    ],
)
def test_what_needs_all_rows_in_one_process_is_refused(table, parameters, message):
    lazy = dask.array.from_array(table, chunks=(1500, 8))
    with pytest.raises(ValueError, match=message):
        bpfa.BPFA(**FEW | parameters).fit(lazy)
    with pytest.raises(ValueError, match=r"batch: .* need all rows in one process; expected None, or X\."):
        bpfa.BPFA(**FEW).fit(lazy, batch=["a"] * len(table))
    with pytest.raises(TypeError, match=r"client: int; expected a dask.distributed.Client"):
        bpfa.BPFA(**FEW).fit(lazy, client=5)


def test_very_many_chunks_are_sampled_and_a_rare_column_is_found(monkeypatch):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4000, 3))
    values[:, 2] = np.nan
    values[17:19, 2] = 1.0, 2.0
    lazy = dask.array.from_array(values, chunks=(10, 3))
    rows = open_collection(lazy)
    assert (rows.n_chunks, rows.surveyed_whole) == (400, False)
    fetched = []
    fetch = ChunkedRows._fetched
    monkeypatch.setattr(ChunkedRows, "_fetched", lambda self, ids: fetched.append(ids) or fetch(self, ids))
    fitted = bpfa.BPFA(**FEW | {"batch_size": 500, "init": "data"}).fit(lazy)
    assert np.isfinite(fitted.noise_std_).all()
    # All samples come from the pool; only the digest asks for rows of its own.
    assert len(fetched) == 1


def test_files_need_workers(tmp_path, table):
    np.save(tmp_path / "table.npy", table)
    with pytest.raises(TypeError, match="client: str; expected"):
        bpfa.BPFA(**FEW).fit(tmp_path / "table.npy", client="tcp://localhost:1")


def test_partial_fit_reads_one_chunk_after_another(table):
    lazy = dask.array.from_array(table, chunks=(1500, 8))
    parts = bpfa.BPFA(**FEW).partial_fit(lazy).partial_fit(lazy)
    whole = bpfa.BPFA(**FEW).partial_fit(table).partial_fit(table)
    assert parts.n_rows_seen_ == whole.n_rows_seen_ == 12_000


def test_a_lazy_stack_is_restored_slice_by_slice():
    y, x = np.mgrid[:30, :34]
    stack = np.stack([np.sin(y / 5 + k) + np.cos(x / 4 - k) for k in range(4)]).astype(np.float32)
    missing = np.random.default_rng(0).random(stack.shape) < 0.4
    missing[2:] = False
    options = {"stack_axis": 0, "patch_size": 5, "n_components": 8, "max_steps": 30, "random_state": 0}
    chunks = (2, 30, 34)
    lazy = dask.array.from_array(stack, chunks=chunks)
    result = bpfa.inpaint(lazy, dask.array.from_array(missing, chunks=chunks), refine="none", **options)
    assert result.image.chunks == lazy.chunks
    image, std, found = dask.compute(result.image, result.std, result.missing)
    np.testing.assert_array_equal(found, missing)
    np.testing.assert_array_equal(image[~missing], stack[~missing])
    assert np.std((image - stack)[missing]) < 0.1
    assert (std[missing] > 0).all()
    assert image.dtype == std.dtype == np.float32
    # The dictionary of the result restores a slice as it restores the stack.
    alone = bpfa.inpaint(stack[:2], missing[:2], stack_axis=0, model=result.model, refine="none")
    np.testing.assert_array_equal(image[:2], alone.image)
    with pytest.raises(ValueError, match="a Dask array without slices; expected stack_axis"):
        bpfa.denoise(lazy)
