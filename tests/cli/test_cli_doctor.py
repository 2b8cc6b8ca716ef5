import pytest
from cli_run import refused, runner

pytest.importorskip("typer")

from bpfa.cli import doctor


@pytest.fixture
def run(capfd):
    return runner(capfd)


def test_a_healthy_installation(run):
    ran = run("doctor", "--json")
    assert ran.status == 0
    document = ran.document
    assert document["healthy"]
    assert document["seconds"] < 60
    assert [test["passed"] for test in document["self_test"]] == [True] * 3
    assert document["libraries"]["numpy"]
    assert document["system"]["threads"] >= 1
    assert "baseline" in document["system"]["instruction sets"]


def test_what_people_see(run, monkeypatch):
    monkeypatch.setattr(doctor, "TESTS", {})
    monkeypatch.setattr(doctor, "version", lambda name: None if name == "zarr" else "1.0")
    shown = run("doctor").out
    assert "pip install 'bpfa[zarr]'" in shown
    assert "GPU" in shown
    assert run("doctor", "-q") == (0, "", "")


@pytest.mark.parametrize("test", ["fits_drawn_data", "kernels_agree", "models_come_back"])
def test_a_failure_is_found_and_told(run, monkeypatch, test):
    """Each self-test must be able to fail."""
    import bpfa

    if test == "fits_drawn_data":
        draw = bpfa.draw_data
        monkeypatch.setattr(
            bpfa, "draw_data", lambda *shape, g_o, **options: draw(*shape, g_o=1.0, **options)
        )
    elif test == "kernels_agree":
        train = bpfa.train
        monkeypatch.setattr(
            bpfa,
            "train",
            lambda y, n, *, seed, device, **rest: train(y, n, seed=len(device), device=device, **rest),
        )
    else:
        impute = bpfa.BPFA.impute
        monkeypatch.setattr(bpfa.BPFA, "impute", lambda model, y: impute(model, y) + id(model))
    monkeypatch.setattr(doctor, "TESTS", {test: getattr(doctor, test)})
    ran = run("doctor", "-q")
    refused(ran, test, "ArithmeticError", status=1)
    assert not run("doctor", "--json").document["healthy"]


@pytest.mark.parametrize(("there", "said"), [(None, "none found"), ("/bin/false", "does not answer")])
def test_gpu(monkeypatch, there, said):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: there)
    assert said in doctor.gpu()
    assert "CPU is used" in doctor.gpu()
