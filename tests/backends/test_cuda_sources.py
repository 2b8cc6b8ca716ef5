"""The kernels of the GPU compile, where a compiler is installed, and devices are chosen; no GPU is needed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_variants import ALL, FEW

from bpfa.backends.cuda import runtime
from bpfa.backends.registry import check_device

# `make cuda` asks for every variant.
VARIANTS = ALL if os.environ.get("BPFA_ALL_CUDA_VARIANTS") else FEW
# The oldest cards, those with little shared memory, and those that the benchmarks are of.
ARCHITECTURES = ("75", "86", "90")
# Sources that need tensor cores of Ampere or later, and are not used on older cards.
TENSOR_SOURCES = ("sums_tensor.cu", "correlations.cu")
CASES = [
    (source, macros, architecture)
    for source, macros in VARIANTS
    for architecture in ARCHITECTURES
    if architecture != "75" or source not in TENSOR_SOURCES
]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize(
    ("source", "macros", "architecture"),
    CASES,
    ids=[f"{source} {' '.join(macros)} sm_{architecture}" for source, macros, architecture in CASES],
)
def test_kernels_compile(source, macros, architecture, tmp_path):
    path = tmp_path / source
    path.write_text(runtime.source_text(source))
    command = ["nvcc", "-std=c++17", f"-arch=sm_{architecture}", "-use_fast_math", "-Werror", "all-warnings"]
    options = [*(f"-D{macro}" for macro in macros), "-cubin", "-o", str(tmp_path / "out.cubin"), str(path)]
    found = subprocess.run([*command, *options], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_sources_are_whole():
    """What a source includes is in its place, once."""
    text = runtime.source_text("gibbs.cu")
    assert '#include "' not in text
    assert text.count("class Tiles {") == 1
    assert text.count("class Row {") == 3


def test_kernels_that_python_names_are_in_the_sources():
    texts = "".join(path.read_text() for path in sorted(Path(runtime.__file__).parent.glob("*.py")))
    named = re.findall(r'\bkernel\(\s*"(\w+\.cu)",\s*"(\w+)"', texts)
    named += [("posterior.cu", name) for name in re.findall(r'self\._kernel\("(\w+)"\)', texts)]
    named += [("dropout.cu", name) for name in re.findall(r'_launch\(\s*"(\w+)", batch', texts)]
    assert len(named) > 20
    for source, name in named:
        found = re.search(rf'extern "C" __global__ void\s[^;{{]*?\b{name}\(', runtime.source_text(source))
        assert found, f"{name} is not in {source}"


def test_devices_are_named():
    assert check_device("cpu") == "cpu"
    assert check_device("auto") in ("cpu", "cuda")
    with pytest.raises(ValueError, match="cuda:x"):
        runtime.device_index("cuda:x")


def test_a_missing_gpu_is_an_error_and_no_fallback(monkeypatch):
    monkeypatch.setattr(runtime, "cuda_problem", lambda index=0: "no GPU is visible")
    runtime.device_index.cache_clear()
    with pytest.raises(RuntimeError, match="no GPU is visible"):
        runtime.device_index("cuda")
    assert check_device("auto") == "cpu"


def test_missing_cupy_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    runtime.cupy_module.cache_clear()
    with pytest.raises(ImportError, match="cuda13"):
        runtime.cupy_module()
    assert "cuda12" in runtime.cuda_problem()


def test_the_place_of_the_cache_can_be_set(monkeypatch, tmp_path):
    monkeypatch.setenv(runtime.CACHE_VARIABLE, str(tmp_path))
    assert runtime.cache_folder() == tmp_path
    monkeypatch.delenv(runtime.CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert runtime.cache_folder() == tmp_path / "home" / "bpfa"
