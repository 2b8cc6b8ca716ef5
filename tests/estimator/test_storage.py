"""Model files: they come back to the bit, survive a full disk, and refuse what is not theirs."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from builders import natural, random_posterior
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from bpfa import BPFA, ChainPosterior, draw_data, open_rows
from bpfa.estimator import storage
from bpfa.estimator.storage import pack_posterior, read_model, unpack_posterior, upgraded, write_model
from bpfa.model.local import LocalState

DATA = draw_data(60, 4, 2, g_o=100.0, g_w=1.0, seed=0).y


@pytest.fixture(scope="module")
def fitted():
    return BPFA(n_components=3, max_steps=3, random_state=0).fit(DATA)


@pytest.fixture(scope="module")
def model_file(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.bpfa"
    fitted.save(path)
    return path


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("per_column", [True, False])
def test_posterior_comes_back_to_the_bit(joint, per_column, tmp_path):
    posterior = random_posterior(
        np.random.default_rng(0), 10, 3, 4, per_column, joint, weight_precision="active"
    )
    arrays, document = pack_posterior(posterior)
    write_model(tmp_path / "a", arrays, document)
    again = unpack_posterior(*read_model(tmp_path / "a"))
    for name, value in natural(posterior).items():
        np.testing.assert_array_equal(natural(again)[name], value, err_msg=name)
    assert (again.priors, again.n_rows, again.weight_precision) == (posterior.priors, 10, "active")
    assert type(again.features) is type(posterior.features)


def test_chain_comes_back_to_the_bit(tmp_path):
    rng = np.random.default_rng(0)
    views = [random_posterior(rng, 10, 3, 4).sampled(rng) for _ in range(2)]
    state = LocalState(np.round(rng.random((10, 3))), rng.normal(size=(10, 3)))
    write_model(tmp_path / "a", *pack_posterior(ChainPosterior(tuple(views), state)))
    again = unpack_posterior(*read_model(tmp_path / "a"))
    assert isinstance(again, ChainPosterior)
    for view, other in zip(views, again.views, strict=True):
        for value, back in zip(view, other, strict=True):
            np.testing.assert_array_equal(value, back)
    np.testing.assert_array_equal(again.state.z, state.z)
    np.testing.assert_array_equal(again.state.w, state.w)


def test_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "a.bpfa"
    for value in (1.0, 2.0):
        write_model(path, {"x": np.full(3, value)}, {"value": value})
        assert read_model(path)[1] == {"value": value}
    assert os.listdir(tmp_path) == ["a.bpfa"]


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.bpfa"
    write_model(path, {"x": np.ones(3)}, {})

    def fail(*args, **kwargs):
        raise storage.SafetensorError("No space left on device")

    monkeypatch.setattr(storage, "save_file", fail)
    with pytest.raises(OSError, match=r"a\.bpfa: not written, and what was there is untouched: No space"):
        write_model(path, {"x": np.zeros(3)}, {})
    np.testing.assert_array_equal(read_model(path)[0]["x"], 1.0)
    assert os.listdir(tmp_path) == ["a.bpfa"]


def test_full_disk(tmp_path):
    """The kernel refuses to let the file grow: the real error path of the library below."""
    code = """
        import resource, sys
        import numpy as np
        from bpfa.estimator.storage import write_model
        write_model(sys.argv[1], {"x": np.ones(3)}, {})
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            write_model(sys.argv[1], {"x": np.ones(100_000)}, {})
        except OSError as error:
            print("refused:", error)
    """
    path = tmp_path / "a.bpfa"
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), path], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(f"refused: {path}: not written")
    np.testing.assert_array_equal(read_model(path)[0]["x"], 1.0)
    assert os.listdir(tmp_path) == ["a.bpfa"]


@pytest.mark.parametrize("where", ["no/such/folder/a.bpfa", "file/a.bpfa"])
def test_folder_that_cannot_be_written_is_refused_before_the_fit(where, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError, match="cannot write there"):
        BPFA(max_steps=10**9).fit(DATA, checkpoint=tmp_path / where)
    with pytest.raises(OSError, match="expected the name of a file"):
        BPFA(max_steps=10**9).fit(DATA, checkpoint=tmp_path)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.bpfa: no such file"):
        BPFA.load(tmp_path / "nothing.bpfa")


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "foreign"
    path.write_text("hello")
    with pytest.raises(ValueError, match="not a model saved by bpfa"):
        BPFA.load(path)
    save_file({"x": np.ones(2)}, path)
    with pytest.raises(ValueError, match="a safetensors file, but not a model saved by bpfa"):
        BPFA.load(path)
    write_model(path, {"x": np.ones(2)}, {"something": "else"})
    with pytest.raises(ValueError, match=r"not a usable model .KeyError: 'parameters'"):
        BPFA.load(path)


def test_later_schema_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "SCHEMA", 4)
    write_model(tmp_path / "a", {}, {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="schema '4', from a later bpfa; this one reads up to 3"):
        read_model(tmp_path / "a")


def test_documents_of_the_first_schema_are_upgraded():
    """Two parameters were renamed in the second schema, wherever they occur in the document."""
    first = {
        "parameters": {"hide": 0.1, "weights": "auto", "n_components": 3, "priors": None},
        "settings": {"weights": "active", "options": {"burn_in": 3, "hide": 0.1}, "key": 7},
        "posterior": {"kind": "joint", "weights": "active"},
        "last": None,
        "columns": ["hide", "weights"],
    }
    second = {
        "parameters": {"dropout": 0.1, "weight_precision": "auto", "n_components": 3, "priors": None},
        "settings": {"weight_precision": "active", "options": {"burn_in": 3, "dropout": 0.1}, "key": 7},
        "posterior": {"kind": "joint", "weight_precision": "active"},
        "last": None,
        # Columns of the data keep their names.
        "columns": ["hide", "weights"],
    }
    assert upgraded(first, schema=1) == second
    assert upgraded(second, schema=1) == second
    assert upgraded(second, schema=2) is second
    # A name of the first schema means nothing in the second.
    assert upgraded({"hide": 1}, schema=2) == {"hide": 1}


def test_files_of_the_first_schema_are_upgraded_when_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "SCHEMA", 1)
    write_model(tmp_path / "a", {}, {"settings": {"options": {"hide": 0.1}}})
    monkeypatch.undo()
    assert read_model(tmp_path / "a")[1] == {"settings": {"options": {"dropout": 0.1}}}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_file_is_a_value_error_or_the_same_model(model_file, fitted, tmp_path, data):
    """A byte changed, the end cut off, or something put in: never worse than a ValueError, never silent."""
    content = bytearray(model_file.read_bytes())
    kind = data.draw(st.sampled_from(["change", "cut", "insert", "header"]))
    if kind == "cut":
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    elif kind == "insert":
        at = data.draw(st.integers(0, len(content)))
        content[at:at] = data.draw(st.binary(min_size=1, max_size=20))
    else:
        last = len(content) - 1 if kind == "change" else 2000
        content[data.draw(st.integers(0, last))] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "damaged"
    path.write_bytes(content)
    try:
        again = BPFA.load(path)
    except ValueError:
        return
    # Only a change that means nothing, such as a space in the header, may pass.
    np.testing.assert_array_equal(again.components_, fitted.components_)


@given(
    document=st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.dictionaries(
            st.sampled_from(
                ["parameters", "settings", "posterior", "kind", "priors", "n_steps", "columns", "a"]
            ),
            inner,
        ),
        max_leaves=12,
    )
)
@settings(max_examples=100, deadline=None)
def test_any_document_is_a_value_error(document, tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "a"
    write_model(path, {"mean": np.zeros(2), "scale": np.ones(2)}, document)
    with pytest.raises(ValueError, match="not a usable model"):
        BPFA.load(path)


def test_document_is_plain_json(model_file, fitted):
    """Any program that reads safetensors and JSON can read a model; NaN would not be JSON."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    with safe_open(model_file, framework="numpy") as file:
        text = file.metadata()["bpfa"]
        mean = file.get_tensor("mean")
    document = json.loads(text, parse_constant=refuse)
    assert document == read_model(model_file)[1]
    assert document["parameters"]["n_components"] == 3
    assert document["n_steps"] == 3
    np.testing.assert_array_equal(mean, fitted.mean_)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_document_that_is_not_json_is_not_written(tmp_path, value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_model(tmp_path / "a", {}, {"value": value})
    assert os.listdir(tmp_path) == []


class TestForeignFiles:
    """A model replaces nothing but a model, and never the data."""

    PRECIOUS = b"a,b\n1,2\n"

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "precious.csv").write_bytes(self.PRECIOUS)
        os.symlink("precious.csv", tmp_path / "link.bpfa")
        save_file({"x": np.ones(2)}, tmp_path / "foreign.safetensors")
        return tmp_path

    @pytest.mark.parametrize("name", ["precious.csv", "link.bpfa", "foreign.safetensors"])
    def test_they_are_not_replaced(self, fitted, name, folder):
        before = (folder / name).read_bytes()
        with pytest.raises(FileExistsError, match=rf"{name}: exists and is not a model saved by bpfa"):
            fitted.save(name)
        with pytest.raises(FileExistsError, match=rf"{name}: exists and is not a model saved by bpfa"):
            BPFA(max_steps=10**9).fit(DATA, checkpoint=name)
        assert (folder / name).read_bytes() == before

    def test_damaged_models_are_not_replaced(self, fitted, folder):
        fitted.save("a.bpfa")
        cut = (folder / "a.bpfa").read_bytes()[:-10]
        (folder / "a.bpfa").write_bytes(cut)
        with pytest.raises(FileExistsError, match=r"a\.bpfa: exists and is a damaged model"):
            fitted.save("a.bpfa")
        with pytest.raises(FileExistsError, match=r"a\.bpfa: exists and is a damaged model"):
            BPFA(max_steps=10**9).fit(DATA, checkpoint="a.bpfa")
        assert (folder / "a.bpfa").read_bytes() == cut

    def test_models_and_empty_files_are_replaced(self, fitted, folder):
        (folder / "a.bpfa").touch()
        for _ in range(2):
            fitted.save("a.bpfa")
            assert BPFA.load("a.bpfa").n_steps_ == 3

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes with names of files")
    def test_pipes_and_devices_are_not_replaced(self, fitted, folder):
        os.mkfifo("pipe")
        with pytest.raises(FileExistsError, match="pipe: not a plain file"):
            fitted.save("pipe")

    @pytest.mark.parametrize("name", ["x.npy", "sub/../x.npy", "link.npy"])
    def test_the_data_is_not_replaced(self, name, folder):
        np.save("x.npy", DATA)
        (folder / "sub").mkdir()
        os.symlink(folder / "x.npy", "link.npy")
        before = (folder / "x.npy").read_bytes()
        for rows in (open_rows("x.npy"), np.load("x.npy", mmap_mode="r"), open_rows("link.npy")):
            with pytest.raises(ValueError, match=rf"checkpoint='{name}': the file of the data"):
                BPFA(max_steps=10**9).fit(rows, checkpoint=name)
        assert (folder / "x.npy").read_bytes() == before

    def test_a_file_that_came_during_the_fit_is_kept(self, folder):
        def put(progress, history):
            (folder / "a.bpfa").write_bytes(self.PRECIOUS)

        with pytest.warns(UserWarning, match=r"a\.bpfa: exists and is not a model"):
            BPFA(n_components=3, max_steps=3).fit(DATA, checkpoint="a.bpfa", callbacks=[put])
        assert (folder / "a.bpfa").read_bytes() == self.PRECIOUS


def test_full_disk_at_a_checkpoint_does_not_lose_the_model(tmp_path):
    """The real error of the kernel, in the middle and at the end of a fit; an explicit save still fails."""
    code = """
        import resource, sys, warnings
        from bpfa import BPFA, Checkpoint, draw_data
        X = draw_data(60, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            checkpoint = Checkpoint(sys.argv[1], every_steps=2)
            model = BPFA(n_components=3, max_steps=9, random_state=0, n_jobs=1).fit(X, checkpoint=checkpoint)
        print(model.n_steps_, [str(warning.message).split(" (")[0] for warning in caught])
        try:
            model.save(sys.argv[1])
        except OSError as error:
            print("refused:", error)
    """
    path = tmp_path / "a.bpfa"
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), path], capture_output=True, text=True, check=True
    )
    first, second = run.stdout.splitlines()
    assert first == (
        "9 ['checkpoint not saved; the fit goes on', "
        "'checkpoint not saved; the file does not hold the end of the fit']"
    )
    assert second.startswith(f"refused: {path}: not written")
    assert os.listdir(tmp_path) == []


def test_a_link_to_a_model_stays_a_link(fitted, tmp_path):
    link = tmp_path / "latest.bpfa"
    link.symlink_to("model.bpfa")
    for steps in (3, 4):
        model = BPFA(n_components=3, max_steps=steps, random_state=0)
        model.fit(DATA, checkpoint=link, resume=True).save(link)
        assert link.is_symlink()
        assert BPFA.load(tmp_path / "model.bpfa").n_steps_ == steps
    assert sorted(os.listdir(tmp_path)) == ["latest.bpfa", "model.bpfa"]
