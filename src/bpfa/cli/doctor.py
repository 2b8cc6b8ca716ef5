"""bpfa doctor: shows what is installed and what the machine has, and tests that results are right."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.table import Table
from threadpoolctl import threadpool_info

import bpfa
from bpfa.backends.registry import BACKENDS
from bpfa.cli.cluster import SCHEDULER, client_of, cluster_facts, cluster_table
from bpfa.cli.declared import takes
from bpfa.cli.messages import Messenger
from bpfa.cli.options import OUTPUT

__all__ = ["doctor"]

CORE = ("numpy", "scipy", "scikit-learn", "safetensors", "threadpoolctl")
# Optional libraries, each with the extra that installs it.
OPTIONAL = {
    "typer": "cli",
    "rich": "cli",
    "jinja2": "cli",
    "pillow": "images",
    "tifffile": "images",
    "scikit-image": "demo",
    "h5py": "hdf5",
    "anndata": "anndata",
    "zarr": "zarr",
    "flowio": "fcs",
    "pyarrow": "parquet",
    "pandas": "tables",
    "polars": "tables",
    "dask": "dask",
    "distributed": "dask",
}
# CuPy is published under a different name for each version of CUDA.
CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")


@takes(SCHEDULER, *OUTPUT[1:])
def doctor(context: typer.Context, *, scheduler: str | None, **options: Any) -> None:
    """Check the installation in a few seconds.

    Shows versions, instruction sets, threads, BLAS and GPU, and tests that results are right. With
    --scheduler, checks that the workers of a cluster have the same version, threads and cards, and times a
    step there.
    """
    messenger = Messenger.of(context)
    if scheduler is not None:
        _check_cluster(context, messenger)
        return
    facts = {"system": system(), "libraries": {name: version(name) for name in (*CORE, *OPTIONAL)}}
    facts["libraries"] |= {name: found for name in CUPY if (found := version(name))}
    with messenger.bar("self-test", None):
        tests = [run(name, test) for name, test in TESTS.items()]
    healthy = all(test["passed"] for test in tests)
    messenger.result("doctor", {**facts, "self_test": tests, "healthy": healthy}, *shown(facts, tests))
    if not healthy:
        failed = "; ".join(f"{test['name']}: {test['detail']}" for test in tests if not test["passed"])
        raise ArithmeticError(
            f"the self-test failed: {failed}. Reinstall bpfa, or report this with the output above"
        )


def _check_cluster(context: typer.Context, messenger: Messenger) -> None:
    """Check the workers of a cluster, and fail if something is wrong with them."""
    with messenger.bar("cluster", None), client_of(context) as client:
        facts = cluster_facts(client)
    messenger.result("doctor", facts, cluster_table(facts))
    if facts["problems"]:
        raise ArithmeticError(f"the cluster is not uniform: {'; '.join(facts['problems'])}")


def system() -> dict[str, Any]:
    """Return facts about the machine and the software that bpfa runs on."""
    from bpfa._support.threads import thread_count
    from bpfa.backends.cpu import instruction_sets

    # A BLAS library can be found only after it has been loaded, which NumPy has done by now.
    blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {
        "bpfa": bpfa.__version__,
        "Python": platform.python_version(),
        "platform": platform.platform(),
        "instruction sets": ", ".join(instruction_sets()),
        "threads": thread_count(),
        "BLAS": ", ".join(sorted({f"{p['internal_api']} {p['version']}" for p in blas})) or "none found",
        "GPU": gpu(),
    }


def gpu() -> str:
    """Return which GPU there is and whether it can be used; if not, why, and what to do about it."""
    cuda = BACKENDS["cuda"]
    problem = cuda.problem()
    if problem is None:
        return cuda.description()
    if shutil.which("nvidia-smi") is None:
        return "none found: the CPU is used"
    asked = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return f"nvidia-smi is installed but does not answer: {problem}. The CPU is used"
    return f"{'; '.join(found.strip().splitlines())}: present, but {problem}. The CPU is used"


def version(name: str) -> str | None:
    """Return the version of an installed distribution, or None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def shown(facts: dict[str, Any], tests: list[dict[str, Any]]) -> Iterator[Any]:
    """Yield what is shown to people: one table with all findings."""
    table = Table.grid(padding=(0, 2))
    for name, value in facts["system"].items():
        table.add_row(name, str(value))
    table.add_row()
    for name, found in facts["libraries"].items():
        missing = f"not installed: pip install 'bpfa[{OPTIONAL.get(name, '')}]'"
        table.add_row(name, found or missing)
    table.add_row()
    for test in tests:
        verdict = "passed" if test["passed"] else f"FAILED: {test['detail']}"
        table.add_row(test["name"], f"{verdict} ({test['seconds']:.1f} s)")
    yield table


def run(name: str, test: Callable[[], None]) -> dict[str, Any]:
    """Run a self-test, and return whether it passed, or why it failed."""
    began, detail = time.perf_counter(), ""
    try:
        test()
    except Exception as error:
        detail = " ".join(f"{type(error).__name__}: {error}".split())
    return {
        "name": name,
        "passed": not detail,
        "detail": detail,
        "seconds": round(time.perf_counter() - began, 3),
    }


def fits_drawn_data() -> None:
    """Fit data drawn from the model: the fit must find the level of their noise."""
    data = bpfa.draw_data(1000, 12, 4, g_o=100.0, g_w=1.0, seed=0)
    model = bpfa.BPFA(n_components=10, max_steps=150, standardize=False, random_state=0).fit(data.y)
    noise = float(model.noise_std_[0])
    if not 0.09 < noise < 0.12:
        raise ArithmeticError(f"noise {noise:.3f}, but the data were drawn with 0.1")


def kernels_agree() -> None:
    """Compare the compiled kernels with the NumPy specification, in double precision."""
    data = bpfa.draw_data(60, 7, 5, seed=0)
    y = np.where(np.random.default_rng(0).random(data.y.shape) < 0.3, np.nan, data.y)
    for name in ("gibbs-ssvi", "titsias-ssvi", "mf-ssvi"):
        devices: list[dict[str, Any]] = [{"device": "numpy"}]
        devices += [
            {"device": kind, "dtype": "float64"}
            for kind, backend in BACKENDS.items()
            if kind != "numpy" and backend.problem() is None
        ]
        specified, *compiled = (
            [
                step.posterior.noise_std
                for step in bpfa.train(y, 6, algorithm=name, n_steps=3, seed=0, **device)
            ]
            for device in devices
        )
        for device, noise in zip(devices[1:], compiled, strict=True):
            if not np.allclose(noise, specified, rtol=1e-6):
                raise ArithmeticError(
                    f"{name} on {device['device']}: noise {noise[-1]!r}, but the specification gives "
                    f"{specified[-1]!r}"
                )


def models_come_back() -> None:
    """Save a model and load it again: both must impute the same values."""
    y = bpfa.draw_data(50, 5, 3, seed=0).y
    y[0, 0] = np.nan
    model = bpfa.BPFA(n_components=5, max_steps=5, random_state=0).fit(y)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.bpfa"))
        loaded = bpfa.BPFA.load(Path(folder, "model.bpfa"))
    if not np.array_equal(model.impute(y), loaded.impute(y)):
        raise ArithmeticError("a loaded model imputes different values from the one that was saved")


TESTS = {
    "fit of drawn data": fits_drawn_data,
    "kernels against specification": kernels_agree,
    "save and load": models_come_back,
}
