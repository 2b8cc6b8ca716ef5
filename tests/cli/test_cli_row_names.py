"""Tables keep the names of their rows, and the look of their files, through the commands."""

import gzip

import numpy as np
import pytest
from cli_run import refused, runner

import bpfa

pandas = pytest.importorskip("pandas")
pytest.importorskip("typer")

SMALL = ("--components", 3, "--max-steps", 5, "--jobs", 1)
NAMES = ["CD3", "CD4", "CD8", "CD19"]
WHOLE = (bpfa.draw_data(40, 4, 2, g_o=100.0, g_w=1.0, seed=0).y * 3 + 7).round(3)
MISSING = np.random.default_rng(0).random(WHOLE.shape) < 0.2
CELLS = [f"cell {i}, x" for i in range(40)]
FRAME = pandas.DataFrame(
    np.where(MISSING, np.nan, WHOLE), columns=NAMES, index=pandas.Index(CELLS, name="cell")
)


@pytest.fixture
def run(capfd):
    return runner(capfd)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def text(name):
    with gzip.open(name, "rt", newline="") if name.endswith(".gz") else open(name, newline="") as stream:
        return stream.read()


def write_r(path):
    FRAME.to_csv(path)
    content = text(path)
    with open(path, "w", newline="") as file:
        file.write(content.removeprefix("cell,"))


def write_bom(path):
    FRAME.to_csv(path, encoding="utf-8-sig", lineterminator="\r\n")


WRITERS = {
    "x.csv": lambda path: FRAME.to_csv(path),
    "x.tsv": lambda path: FRAME.to_csv(path, sep="\t"),
    "x.csv.gz": lambda path: FRAME.to_csv(path),
    "x.tsv.gz": lambda path: FRAME.to_csv(path, sep="\t"),
    "german.csv": lambda path: FRAME.to_csv(path, sep=";", decimal=","),
    "quoted.csv": lambda path: FRAME.to_csv(path, decimal=","),
    "r.csv": write_r,
    "bom.csv": write_bom,
    "bare.csv": lambda path: FRAME.to_csv(path, header=False),
    "space.csv": lambda path: FRAME.to_csv(path, sep=" ", na_rep="NA"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_text_files_come_back_as_they_were(run, name):
    """Only what was missing is different; the deviations and the weights look like the table."""
    WRITERS[name](name)
    ran = run("fit", name, "m.bpfa", *SMALL)
    assert ran.status == 0
    assert ran.err.startswith(f"reading {name}: ")
    assert "row names from" in ran.err
    assert ran.err.count("\n") == 1
    suffix = name.partition(".")[2]
    assert run("impute", "m.bpfa", name, f"o.{suffix}", "--std", f"s.{suffix}").status == 0
    assert run("transform", "m.bpfa", name, f"w.{suffix}").status == 0
    fields = {}
    for file in (name, *(f"{kind}.{suffix}" for kind in "osw")):
        rows = bpfa.open_rows(file)
        assert list(rows.row_names().values[0]) == CELLS
        fields[file[0] if file != name else name] = (rows, text(file))
    (rows, before), (filled, after) = fields[name], fields["o"]
    assert not np.isnan(filled.values).any()
    np.testing.assert_array_equal(filled.values[~MISSING], rows.values[~MISSING])
    np.testing.assert_array_equal(fields["s"][0].values > 0, MISSING)
    assert fields["w"][0].column_names == ["bpfa0", "bpfa1", "bpfa2"]
    for look in (filled.layout, fields["s"][0].layout):
        for part in ("separator", "decimal", "header", "short_header", "written", "line_end"):
            assert getattr(look, part) == getattr(rows.layout, part)
    assert before.startswith("\ufeff") == after.startswith("\ufeff")
    assert before.count("\r\n") == after.count("\r\n")
    assert before.splitlines()[0] == after.splitlines()[0] or name in ("bare.csv", "quoted.csv")


def test_every_field_that_is_there_is_copied(run, folder):
    content = 'id,a,note,b,c\n007,1.50,"x, y",2,1e3\nA,NA,NA,0x,4\nB,+2,,5,6\nC,3,z,0.70,7\n'
    (folder / "t.csv").write_text(content)
    assert run("fit", "t.csv", "m.bpfa", *SMALL, "--exclude", "note,b").status == 0
    assert run("impute", "m.bpfa", "t.csv", "o.csv").status == 0
    before, after = content.split("NA,NA"), text("o.csv").split(",NA,0x")
    assert after[0].startswith(before[0])
    assert after[0].removeprefix(before[0]) not in ("", "NA")
    assert ",NA,0x" + after[1] == ",NA" + before[1]


@pytest.mark.parametrize("target", ["o.csv", "o.tsv.gz", "o.parquet"])
@pytest.mark.parametrize("source", ["x.csv", "german.csv", "x.parquet", "arrow.parquet", "x.h5ad"])
def test_names_go_from_any_kind_to_any_kind(run, source, target):
    if source == "x.parquet":
        FRAME.to_parquet(source)
    elif source == "arrow.parquet":
        FRAME.reset_index().to_parquet(source, index=False)
    elif source == "x.h5ad":
        adata = pytest.importorskip("anndata").AnnData(FRAME.to_numpy())
        adata.obs_names, adata.var_names = FRAME.index, NAMES
        adata.write_h5ad(source)
    else:
        WRITERS[source](source)
    assert run("fit", source, "m.bpfa", *SMALL, "--quiet").err == ""
    assert run("impute", "m.bpfa", source, target, "--std", f"s{target[1:]}").status == 0
    assert run("transform", "m.bpfa", source, f"w{target[1:]}").status == 0
    for file in (target, f"s{target[1:]}", f"w{target[1:]}"):
        rows = bpfa.open_rows(file)
        names = rows.row_names()
        assert (names.labels, list(names.values[0])) == (("cell",), CELLS)
        values = rows.take(np.arange(40)).values
        assert not np.isnan(values).any()
        if file == target:
            np.testing.assert_allclose(values[~MISSING], WHOLE[~MISSING], rtol=1e-15)
            assert rows.column_names == NAMES


def test_several_columns_of_names(run):
    frame = FRAME.reset_index().assign(donor=[f"p{i % 3}" for i in range(40)], plate=range(40))
    frame.to_csv("t.csv", index=False)
    options = ("--index", "cell,donor", "--index", "plate")
    assert run("fit", "t.csv", "m.bpfa", *SMALL, *options).err == ""
    assert run("transform", "m.bpfa", "t.csv", "w.parquet", *options).status == 0
    assert run("transform", "m.bpfa", "t.csv", "w.csv", *options).status == 0
    assert pandas.read_parquet("w.parquet").index.names == ["cell", "donor", "plate"]
    assert list(pandas.read_csv("w.csv"))[:4] == ["cell", "donor", "plate", "bpfa0"]


def test_names_with_commas(run):
    FRAME.rename(columns={"CD3": "CD3, a", "CD4": "it's"}).assign(site="x").to_csv("t.csv")
    refused(run("fit", "t.csv", "m.bpfa"), "column 'site' is not numbers ('x' in line 2)", "--exclude 'site'")
    assert (
        run("fit", "t.csv", "m.bpfa", *SMALL, "--columns", '"CD3, a",it\'s', "--columns", "CD8").status == 0
    )
    assert list(bpfa.BPFA.load("m.bpfa").feature_names_in_) == ["CD3, a", "it's", "CD8"]
    assert run("impute", "m.bpfa", "t.csv", "o.csv").status == 0
    assert list(pandas.read_csv("o.csv")) == ["cell", "CD3, a", "it's", "CD8", "CD19", "site"]
    FRAME.assign(**{"a, b": "x"}).to_csv("u.csv")
    refused(run("fit", "u.csv", "n.bpfa"), """--index '"a, b"' if it names the rows, or --exclude '"a, b"'""")


def test_a_file_without_header_is_matched_by_place(run):
    FRAME.to_csv("t.csv")
    FRAME.to_csv("bare.csv", header=False, index=False)
    assert run("fit", "t.csv", "m.bpfa", *SMALL).status == 0
    for name in ("t.csv", "bare.csv"):
        assert run("transform", "m.bpfa", name, f"w_{name}").status == 0
    np.testing.assert_array_equal(
        bpfa.open_rows("w_t.csv").values, bpfa.open_rows("w_bare.csv", index=False).values
    )


def test_cytometry_leaves_the_time_out(run):
    flowio = pytest.importorskip("flowio")
    events = np.column_stack([np.arange(40.0), np.abs(WHOLE), np.full(40, 13.0)])
    with open("c.fcs", "wb") as file:
        flowio.create_fcs(file, events.ravel().tolist(), ["Time", *"abcd", "Event_length"])
    ran = run("fit", "c.fcs", "m.bpfa", *SMALL)
    assert ran.err == "reading c.fcs: without Time, Event_length\n"
    assert list(bpfa.BPFA.load("m.bpfa").feature_names_in_) == [*"abcd"]
    assert run("fit", "c.fcs", "n.bpfa", *SMALL, "--columns", "Time,a,b").err == ""
    assert list(bpfa.BPFA.load("n.bpfa").feature_names_in_) == ["Time", "a", "b"]
    assert run("transform", "n.bpfa", "c.fcs", "w.npy").err == ""
    refused(run("fit", "c.fcs", "o.bpfa", "--columns", "x"), "--columns: 'x' is the name of 0 channels")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("fit", "t.csv", "n.bpfa", "--decimal", "."),
            ("'CD3' is not numbers", "--decimal ','", "--exclude"),
        ),
        (("fit", "t.csv", "n.bpfa", "--decimal", "x"), ("--decimal 'x': expected '.' or ','",)),
        (("fit", "t.csv", "n.bpfa", "--separator", ";;"), ("--separator ';;': cannot stand",)),
        (("fit", "t.csv", "n.bpfa", "--separator", "|"), ("is not numbers", "another --separator ...")),
        (("fit", "t.csv", "n.bpfa", "--index", "x"), ("--index: 'x' is not in t.csv",)),
        (("fit", "t.csv", "n.bpfa", "--index", "cell", "--no-index"), ("--no-index:", "without --index")),
        (("fit", "t.csv", "n.bpfa", "--no-index"), ("'cell' is not numbers", "--index 'cell'")),
        (("fit", "t.csv", "n.bpfa", "--no-header"), ("column '1' is not numbers ('CD3' in line 1)",)),
        (
            ("fit", "t.csv", "n.bpfa", "--exclude", "CD3", "--columns", "CD3"),
            ("--columns: 'CD3' is excluded",),
        ),
        (
            ("fit", "odd.csv", "n.bpfa"),
            ("the first column has no name", "--index 'Unnamed: 0'", "--no-index"),
        ),
        (("fit", "t.npy", "n.bpfa", "--exclude", "a"), ("--exclude: not an option of .npy files",)),
        (("fit", "t.h5", "n.bpfa", "--header"), ("--header: not an option of .h5 files; expected --key",)),
        (("fit", "s.npz", "n.bpfa"), ("--absent 'missing' or --absent 'zero'",)),
        (("transform", "m.bpfa", "odd.csv", "w.csv"), ("MODEL m.bpfa: column 'CD3' is not in odd.csv",)),
        (
            ("transform", "m.bpfa", "t.csv", "w.csv", "--exclude", "CD3"),
            ("MODEL m.bpfa: column 'CD3' is excluded",),
        ),
    ],
)
def test_errors_are_in_the_words_of_the_command(run, folder, arguments, words):
    FRAME.to_csv("t.csv", sep=";", decimal=",")
    assert run("fit", "t.csv", "m.bpfa", *SMALL).status == 0
    (folder / "odd.csv").write_text(",a,b\n0.5,1,2\n0.5,3,4\n")
    np.save("t.npy", WHOLE)
    pytest.importorskip("scipy.sparse").save_npz(
        "s.npz", pytest.importorskip("scipy.sparse").csr_array(WHOLE)
    )
    with pytest.importorskip("h5py").File("t.h5", "w") as file:
        file["x"] = WHOLE
    refused(run(*arguments), *words)


def test_a_table_that_changes_meanwhile_is_not_mixed_up(run, folder):
    FRAME.to_csv("t.csv")
    rows = bpfa.open_rows("t.csv")
    from bpfa.cli.textfiles import Style, write_filled_text

    for change, n_rows in (("more", 39), ("fewer", 41)):
        with pytest.raises(ValueError, match=f"t.csv: has {change} rows than before"):
            write_filled_text(folder / "o.csv", rows, np.zeros((n_rows, 4)), Style(","))
