import json

import numpy as np
import pytest
from cli_run import refused, runner
from scipy import sparse

import bpfa

pandas = pytest.importorskip("pandas")
pytest.importorskip("typer")

SMALL = ("--components", 6, "--max-steps", 20, "--jobs", 1)
NAMES = ["CD3", "CD4", "CD8", "CD19", "CD45"]
RNG = np.random.default_rng(0)
WHOLE = bpfa.draw_data(60, 5, 3, g_o=100.0, g_w=1.0, seed=0).y * 3 + 7
MISSING = RNG.random(WHOLE.shape) < 0.2
HOLES = np.where(MISSING, np.nan, WHOLE)


@pytest.fixture
def run(capfd):
    return runner(capfd)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one table in many kinds of files, in which commands run."""
    monkeypatch.chdir(tmp_path)
    frame = pandas.DataFrame(HOLES, columns=NAMES)
    frame.insert(0, "donor", [f"p{i % 3}" for i in range(60)])
    frame["age"] = np.arange(60)
    frame.to_csv("t.csv", index=False)
    np.save("t.npy", HOLES)
    return tmp_path


def fitted(run, source="t.npy", *options):
    assert run("fit", source, "m.bpfa", *SMALL, "--with-rows", *options).status == 0
    return bpfa.BPFA.load("m.bpfa")


def test_fit_saves_what_python_would(run, folder):
    model = fitted(run)
    same = bpfa.BPFA(6, max_steps=20, n_jobs=1, random_state=0).fit(HOLES)
    np.testing.assert_array_equal(model.components_, same.components_)
    assert sorted(path.name for path in folder.iterdir()) == ["m.bpfa", "t.csv", "t.npy"]


def test_fit_starts_where_it_is_told(run, folder):
    settings = fitted(run, "t.npy", "--init", "data", "--dropout", 0.2).settings_
    assert (settings.init, settings.options["dropout"]) == ("data", 0.2)


def test_fit_as_json(run, folder):
    ran = run("fit", "t.npy", "m.bpfa", "--json", "--held-out", 0.1, "--components", 6, "--max-steps", 50)
    document = ran.document
    assert ran.err == ""
    assert document["written"] == {"model": "m.bpfa"}
    assert (document["rows"], document["columns"], document["steps"]) == (60, 5, 50)
    assert len(document["noise_std"]) == 5
    assert np.isfinite(document["held_out_log_likelihood"])
    assert json.loads(run("fit", "t.npy", "n.bpfa", "--json", *SMALL).out)["held_out_mse"] is None


def test_fit_that_revises_its_features(run, folder):
    options = ("--held-out", 0.2, "--revise", "--components", 4, "--max-steps", 100, "--json")
    document = run("fit", "t.npy", "m.bpfa", *options).document
    assert document["features"] == len(bpfa.BPFA.load("m.bpfa").components_)


def test_fit_with_patience_tells_of_the_model_that_is_kept(run, folder):
    stopping = ("--held-out", 0.2, "--patience", 1, "--max-steps", 5000)
    document = run("fit", "t.npy", "m.bpfa", "--json", "--components", 6, *stopping).document
    history = bpfa.BPFA.load("m.bpfa").history_
    assert document["stopped_by"] == "patience"
    assert document["best_step"] < document["steps"]
    assert document["held_out_log_likelihood"] == np.nanmax(history["held_out_log_likelihood"])


def test_tables_keep_their_columns(run, folder):
    fitted(run, "t.csv", "--columns", ",".join(NAMES))
    for suffix in ("csv", "parquet", "tsv"):
        name = f"filled.{suffix}"
        ran = run("impute", "m.bpfa", "t.csv", name, "--std", f"std.{suffix}", "--json")
        assert ran.document["filled"] == MISSING.sum()
        read = {"parquet": pandas.read_parquet, "tsv": pandas.read_table}.get(suffix, pandas.read_csv)
        # The donors are names of rows, which are the index of a frame in a Parquet file.
        tables = (read(file).reset_index() for file in (name, f"std.{suffix}"))
        filled, std = (table.drop(columns="index", errors="ignore") for table in tables)
        assert list(filled) == ["donor", *NAMES, "age"]
        assert filled["age"].dtype == np.int64
        np.testing.assert_allclose(filled[NAMES].to_numpy()[~MISSING], HOLES[~MISSING], rtol=1e-15)
        assert filled[NAMES].notna().all(axis=None)
        assert list(std) == ["donor", *NAMES]
        np.testing.assert_array_equal(std[NAMES].to_numpy() > 0, MISSING)


def test_observed_numbers_come_back_to_the_last_digit(run, folder):
    fitted(run, "t.csv", "--columns", ",".join(NAMES))
    assert run("impute", "m.bpfa", "t.csv", "filled.csv").status == 0
    before, after = (path.read_text().splitlines() for path in (folder / "t.csv", folder / "filled.csv"))
    for old, new in zip(before, after, strict=True):
        for a, b in zip(old.split(","), new.split(","), strict=True):
            assert a in ("", b)


def test_imputing_arrays(run, folder):
    model = fitted(run)
    expected, std = model.impute(HOLES, return_std=True)
    assert run("impute", "m.bpfa", "t.npy", "f.npy", "--std", "s.npz").status == 0
    np.testing.assert_array_equal(np.load("f.npy"), expected)
    with np.load("s.npz") as file:
        np.testing.assert_array_equal(file["values"], std)
    assert run("impute", "m.bpfa", "t.npy", "f.csv").status == 0
    assert list(pandas.read_csv("f.csv")) == ["0", "1", "2", "3", "4"]


def test_transform(run, folder):
    model = fitted(run)
    expected = model.transform(HOLES)
    for name in ("w.npy", "w.npz", "w.csv", "w.parquet"):
        assert run("transform", "m.bpfa", "t.npy", name).status == 0
    np.testing.assert_array_equal(np.load("w.npy"), expected)
    np.testing.assert_array_equal(sparse.load_npz("w.npz").toarray(), expected)
    for frame in (pandas.read_csv("w.csv"), pandas.read_parquet("w.parquet")):
        assert list(frame) == [f"bpfa{i}" for i in range(6)]
        np.testing.assert_allclose(frame.to_numpy(), expected, rtol=1e-12)


def test_anndata(run, folder):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(np.zeros_like(HOLES), layers={"raw": HOLES})
    adata.var_names = NAMES
    adata.obs["donor"] = "p7"
    adata.write_h5ad("a.h5ad")
    model = fitted(run, "a.h5ad", "--layer", "raw")
    assert run("impute", "m.bpfa", "a.h5ad", "b.h5ad", "--layer", "raw").status == 0
    filled = anndata.read_h5ad("b.h5ad")
    np.testing.assert_array_equal(
        filled.layers["bpfa_imputed"], model.impute(pandas.DataFrame(HOLES, columns=NAMES))
    )
    np.testing.assert_array_equal(filled.layers["raw"], HOLES)
    assert filled.obsm["X_bpfa"].shape == (60, 6)
    assert (filled.obs["donor"] == "p7").all()
    refused(run("impute", "m.bpfa", "t.npy", "c.h5ad"), "c.h5ad", "as a copy of one")
    refused(run("fit", "a.h5ad", "n.bpfa", "--layer", "none"), "--layer 'none'")


def test_anndata_whose_absent_entries_are_missing(run, folder):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(sparse.csr_matrix(np.nan_to_num(HOLES)))
    adata.var_names = NAMES
    adata.write_h5ad("a.h5ad")
    model = fitted(run, "a.h5ad", "--absent", "missing")
    assert run("impute", "m.bpfa", "a.h5ad", "b.h5ad", "--absent", "missing").status == 0
    filled, frame = anndata.read_h5ad("b.h5ad"), pandas.DataFrame(HOLES, columns=NAMES)
    np.testing.assert_array_equal(filled.layers["bpfa_imputed"], model.impute(frame))
    np.testing.assert_array_equal(filled.obsm["X_bpfa"], model.transform(frame))


def test_options_of_the_kinds(run, folder):
    sparse.save_npz("s.npz", sparse.csr_array(np.nan_to_num(HOLES)))
    np.savez("two.npz", a=HOLES, b=HOLES)
    refused(run("fit", "s.npz", "m.bpfa"), "absent")
    fitted(run, "s.npz", "--absent", "missing")
    refused(run("fit", "two.npz", "n.bpfa"), "key")
    assert run("fit", "two.npz", "n.bpfa", "--key", "b", *SMALL).status == 0


def test_cytometry(run, folder):
    flowio = pytest.importorskip("flowio")
    with open("c.fcs", "wb") as file:
        flowio.create_fcs(file, np.abs(WHOLE).ravel(), ["a", "b", "c", "d", "e"], NAMES)
    model = fitted(run, "c.fcs", "--columns", "CD4,CD8", "--cofactor", 0)
    assert list(model.feature_names_in_) == ["CD4", "CD8"]
    np.testing.assert_allclose(model.mean_, np.abs(WHOLE[:, 1:3]).mean(axis=0), rtol=1e-5)
    assert run("transform", "m.bpfa", "c.fcs", "w.npy", "--cofactor", 0).status == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", "none.csv", "n.bpfa"), ("none.csv", "no such file")),
        (("fit", "t.png", "n.bpfa"), ("t.png", "suffix")),
        (("fit", "cut.npy", "n.bpfa"), ("cut.npy",)),
        (("fit", "t.npy", "m.bpfa"), ("MODEL m.bpfa", "--force")),
        (("fit", "t.npy", "n.bpfa", "--patience", "3"), ("--patience 3",)),
        (("fit", "t.npy", "n.bpfa", "--revise"), ("--revise: nothing is held out",)),
        (("fit", "t.npy", "n.bpfa", "--init", "zero"), ("--init 'zero'", "principal")),
        (("fit", "t.npy", "n.bpfa", "--dropout", "2"), ("--dropout 2", "<= 0.9")),
        (("fit", "t.npy", "n.bpfa", "--layer", "x"), ("--layer: not an option of .npy files",)),
        (("fit", "t.csv", "n.bpfa", "--columns", "CD3,CD99"), ("CD99",)),
        (("fit", "t.npy", "n.bpfa", "--checkpoint", "m.bpfa"), ("--checkpoint", "--resume")),
        (("transform", "none.bpfa", "t.npy", "w.npy"), ("none.bpfa", "no such file")),
        (("transform", "t.npy", "t.npy", "w.npy"), ("not a model",)),
        (("transform", "m.bpfa", "t.npy", "w.txt"), ("w.txt", ".csv")),
        (("transform", "m.bpfa", "t.npy", "w.h5ad"), ("w.h5ad", ".csv")),
        (("transform", "m.bpfa", "wide.npy", "w.npy"), ("6 features", "5 features")),
        (("impute", "m.bpfa", "t.npy", "t.csv"), ("OUT t.csv", "--force")),
        (("impute", "m.bpfa", "t.npy", "t.npy", "--force"), ("OUT t.npy", "the same file as IN;")),
        (("impute", "m.bpfa", "t.npy", "o.npy", "--std", "t.npy", "--force"), ("--std t.npy", "as IN;")),
        (("impute", "m.bpfa", "t.npy", "o.npy", "--std", "o.npy"), ("the same file as OUT;",)),
        (("impute", "m.bpfa", "t.npy", "o.zarr"), ("o.zarr",)),
        (("report", "none.bpfa"), ("none.bpfa", "no such file")),
        (("report", "m.bpfa", "t.npy"), ("--force",)),
        (("fit", "t.npy", "t.npy", "--force"), ("MODEL t.npy", "the same file as IN;")),
        (("fit", "t.npy", "link.npy", "--force"), ("MODEL link.npy", "the same file as IN;")),
        (("fit", "t.npy", "t.csv", "--force"), ("MODEL t.csv", "not a model saved by bpfa")),
        (("fit", "t.npy", "t.csv"), ("MODEL t.csv", "not a model saved by bpfa")),
        (
            ("fit", "t.npy", "n.bpfa", "--checkpoint", "t.csv", "--force"),
            ("--checkpoint t.csv", "not a model saved by bpfa"),
        ),
        (
            ("fit", "t.npy", "n.bpfa", "--checkpoint", "link.npy", "--force"),
            ("--checkpoint link.npy", "the same file as IN;"),
        ),
        (
            ("fit", "t.npy", "n.bpfa", "--checkpoint", "n.bpfa"),
            ("--checkpoint n.bpfa", "the same file as MODEL;"),
        ),
        (
            ("fit", "t.npy", "m.bpfa", "--checkpoint", "m.bpfa", "--resume", "--force"),
            ("--checkpoint m.bpfa", "the same file as MODEL;"),
        ),
        (("fit", "t.npy", "cut.bpfa"), ("MODEL cut.bpfa", "--force")),
        (("fit", "t.npy", "n.bpfa", "--checkpoint-every", "1"), ("--checkpoint-every", "--checkpoint FILE")),
        (
            ("fit", "t.npy", "n.bpfa", "--checkpoint", "c.bpfa", "--checkpoint-every", "-1"),
            ("--checkpoint-every -1",),
        ),
        (("transform", "m.bpfa", "t.npy", "t.npy", "--force"), ("OUT t.npy", "the same file as IN;")),
        (("transform", "m.bpfa", "t.npy", "m.bpfa", "--force"), ("OUT m.bpfa", "the same file as MODEL;")),
        (
            ("impute", "m.bpfa", "t.npy", "o.npy", "--std", "m.bpfa", "--force"),
            ("--std", "the same file as MODEL;"),
        ),
        (("report", "m.bpfa", "m.bpfa", "--force"), ("OUT m.bpfa", "the same file as MODEL;")),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(run, folder, arguments, words):
    fitted(run)
    (folder / "cut.npy").write_bytes((folder / "t.npy").read_bytes()[:500])
    (folder / "cut.bpfa").write_bytes((folder / "m.bpfa").read_bytes()[:-10])
    (folder / "link.npy").symlink_to("t.npy")
    np.save("wide.npy", np.ones((3, 6)))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused(run(*arguments), *words)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_columns_of_which_nothing_is_known_stay_empty(run, folder):
    """The fit says so, and the entries do not count as filled in; those of a constant column do."""
    odd = HOLES.copy()
    odd[:, 1], odd[:, 3], odd[:4, 1] = 7.0, np.nan, np.nan
    np.save("odd.npy", odd)
    ran = run("fit", "odd.npy", "m.bpfa", *SMALL)
    assert ran.status == 0
    assert "no entry of column x3 is observed" in ran.err
    document = run("impute", "m.bpfa", "odd.npy", "o.npy", "--std", "s.npy", "--json").document
    filled, std = np.load("o.npy"), np.load("s.npy")
    assert document["filled"] == np.isnan(odd).sum() - len(odd)
    assert (filled[:, 1] == 7).all()
    assert (std[:, 1] == 0).all()
    np.testing.assert_array_equal(np.isnan(filled).all(axis=0), np.arange(5) == 3)
