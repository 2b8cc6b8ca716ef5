"""Every backend offers the protocol, and a new one needs only a class and an entry in the registry."""

import inspect
import re
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from builders import data_with_holes

import bpfa
from bpfa.backends import numpy as specification
from bpfa.backends.numpy.backend import NumpyBackend
from bpfa.backends.protocol import Backend, Workspace
from bpfa.backends.registry import BACKENDS, PREFERRED, backend_of, check_device
from bpfa.inference.algorithms import ALGORITHMS
from bpfa.model.local import LocalMethod, MethodName

PACKAGE = Path(bpfa.__file__).parent
KINDS = get_args(MethodName)


@pytest.mark.parametrize("name", BACKENDS)
class TestEveryBackend:
    def test_implements_all_abstract_members(self, name):
        backend = BACKENDS[name]
        assert isinstance(backend, Backend)
        assert not inspect.isabstract(type(backend))
        assert backend.name == name
        assert backend_of(name) is backend
        problem = backend.problem()
        assert problem is None if name in ("numpy", "cpu") else problem is None or len(problem) > 20
        if problem is None:
            assert len(backend.description()) > 3

    def test_keeps_the_signatures_of_the_protocol(self, name):
        for member, declared in inspect.getmembers(Backend, inspect.isfunction):
            offered = getattr(type(BACKENDS[name]), member)
            assert list(inspect.signature(offered).parameters) == list(inspect.signature(declared).parameters)

    def test_offers_the_local_methods_of_all_kinds(self, name):
        methods = BACKENDS[name].methods
        assert set(methods) == set(KINDS)
        for kind, method in methods.items():
            assert method.kind == kind
            for member, declared in inspect.getmembers(LocalMethod, inspect.isfunction):
                if not member.startswith("_"):
                    expected = list(inspect.signature(declared).parameters)
                    assert list(inspect.signature(getattr(method, member)).parameters) == expected

    def test_options_are_the_fields_of_the_methods(self, name):
        """They include those of the specification, with the same defaults; the device is no option."""
        for kind in KINDS:
            own = {field.name: field.default for field in fields(BACKENDS[name].methods[kind])}
            own.pop("device", None)
            theirs = {field.name: field.default for field in fields(getattr(specification, kind))}
            assert BACKENDS[name].option_names(kind) == tuple(own)
            assert theirs.items() <= own.items()
            assert ("n_jobs" in own) == BACKENDS[name].uses_threads

    def test_has_numbered_devices_or_refuses_numbers(self, name):
        if BACKENDS[name].has_numbered_devices:
            assert check_device(f"{name}:1") == f"{name}:1"
            assert backend_of(f"{name}:1") is BACKENDS[name]
        else:
            with pytest.raises(ValueError, match=f"device='{name}:1': expected one of"):
                check_device(f"{name}:1")


def test_algorithms_use_the_kinds_that_backends_offer():
    assert {cell.method for cell in ALGORITHMS.values()} == set(KINDS)
    assert set(PREFERRED) <= set(BACKENDS)


@pytest.mark.parametrize("device", ["cuad", "auto:1", 3, None, ["cpu"]])
def test_unknown_devices_are_refused(device):
    with pytest.raises((ValueError, TypeError), match="device="):
        check_device(device)


# --- a new backend -----------------------------------------------------------------------------------------


class CountingWorkspace(Workspace):
    """The memory of the host, and how many steps are made there."""

    n_steps = 0

    def step(self, make_step, posterior, batch, step):
        self.n_steps += 1
        return super().step(make_step, posterior, batch, step)


def wrapped(method):
    """A local method of a toy device, which has one of the specification do all the work."""

    @dataclass(frozen=True)
    class Toy(method):
        device: str = "toy"

    return Toy


class ToyBackend(NumpyBackend):
    """A kind of device that is NumPy under another name, with several devices."""

    name = "toy"
    has_numbered_devices = True
    methods = {kind: wrapped(method) for kind, method in NumpyBackend.methods.items()}  # noqa: RUF012

    def __init__(self):
        self.workspaces = {}

    def local_method(self, kind, device, **options):
        return self.methods[kind](**options, device=device)

    @contextmanager
    def workspace(self, device, local):
        assert local.device == device
        self.workspaces[device] = CountingWorkspace()
        yield self.workspaces[device]


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(BACKENDS, "toy", ToyBackend())
    return BACKENDS["toy"]


@pytest.mark.parametrize("device", ["toy", "toy:1"])
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "gibbs"])
def test_a_new_backend_trains_to_the_bits_of_its_methods(toy, name, device):
    y = data_with_holes(N=60)
    ours, theirs = (
        list(bpfa.train(y, 4, algorithm=name, n_steps=3, batch_size=25, seed=0, device=where))
        for where in (device, "numpy")
    )
    assert toy.workspaces[device].n_steps == 3
    for a, b in zip(ours, theirs, strict=True):
        assert (a.step, a.epoch, a.rho) == (b.step, b.epoch, b.rho)
        for parameter in "abcdef":
            np.testing.assert_array_equal(getattr(a.posterior, parameter), getattr(b.posterior, parameter))
        for field in fields(a.posterior.features):
            values = (getattr(p.posterior.features, field.name) for p in (a, b))
            np.testing.assert_array_equal(*values)


def test_a_new_backend_samples_and_fits(toy):
    """The sampler and the estimator find it too, and nothing has to be told about it."""
    y = data_with_holes(N=60)
    *_, ours = bpfa.train(y, 4, algorithm="gibbs", n_steps=2, seed=0, device="toy")
    *_, theirs = bpfa.train(y, 4, algorithm="gibbs", n_steps=2, seed=0, device="numpy")
    np.testing.assert_array_equal(ours.posterior.state.x, theirs.posterior.state.x)
    models = [bpfa.BPFA(4, max_steps=3, device=where, random_state=0).fit(y) for where in ("toy", "numpy")]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    np.testing.assert_array_equal(models[0].impute(y), models[1].impute(y))


def test_an_unregistered_backend_is_unknown():
    with pytest.raises(ValueError, match="device='toy': expected one of"):
        bpfa.train(data_with_holes(N=60), 4, device="toy")


# --- nothing outside its folder knows the GPU --------------------------------------------------------------

GPU_NAMES = re.compile(
    r"\bcupyx?\b|\bDevice[A-Z]\w+|\bPendingSummary\b|\bStepOnDevice\b|\bnvrtc\b|\bcuda\.Stream\b"
)


def test_only_the_cuda_backend_names_what_is_on_a_gpu():
    """Neither CuPy nor the classes of arrays, posteriors and rows on a GPU; `doctor` may name the package."""
    found = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(PACKAGE / "backends" / "cuda")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if GPU_NAMES.search(line)
    ]
    allowed = [line for line in found if line.startswith("cli/doctor.py") and '"cupy' in line]
    assert found == allowed


def test_only_the_registry_imports_the_cuda_backend():
    importers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if not path.is_relative_to(PACKAGE / "backends" / "cuda")
        and re.search(r"^\s*(from|import) bpfa\.backends\.cuda", path.read_text(), re.MULTILINE)
    }
    assert importers == {"backends/registry.py"}
