"""The speed of a GPU: kernels, pictures and tables, beside the card's ceilings and our CPU kernels.

`python -m benchmarks.gpu` prints the tables and writes benchmarks/results/gpu.json. Medians after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import bpfa
from benchmarks.readme import table
from bpfa import Algorithm, Schedule, algorithm, kernels
from bpfa._support.philox import Stream
from bpfa.backends.cuda.gibbs import Chain
from bpfa.backends.cuda.graphs import StepGraphs
from bpfa.backends.cuda.local import Gibbs, MeanField, SpikeSlab
from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.rows import DeviceBatch, rows_on_device
from bpfa.backends.cuda.runtime import cupy_module, on_device
from bpfa.data import ArrayRows, read_batches
from bpfa.data.patches import PatchRows
from bpfa.inference.starts import principal_posterior, random_posterior
from bpfa.inference.svi import svi, svi_step

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"

# The work, and what was asked of it in seconds: must, aim.
ASKED = {
    "Gibbs, 255,025 patches, 20% observed": (4.5e-3, 2.5e-3),
    "Gibbs, 255,025 patches, complete": (3e-3, 1e-3),
    "Boat 512 x 512, 20% observed": (0.5, 0.25),
    "House 256 x 256, 50% observed + noise 15": (0.5, 0.2),
    "532,000 x 40, K = 500, 5% hidden, 100 epochs": (5.0, 2.0),
    "15,000 x 450, K = 500, 10% hidden, 100 epochs": (5.0, 1.5),
    "first call in a fresh process, kernels cached": (3.0, 1.0),
}

FMA_SOURCE = """
extern "C" __global__ void multiply_add(float* out, int n) {
  float x[8];
  for (int i = 0; i < 8; ++i) x[i] = threadIdx.x + i;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < 8; ++i) x[i] = fmaf(x[i], 0.999f, 0.5f);
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += x[i];
  if (sum == -1) out[0] = sum;
}
"""

FIRST_CALL = """
import time
began = time.perf_counter()
import numpy as np
import bpfa
y = np.random.default_rng(0).normal(size=(2000, 16))
y[0, 0] = np.nan
bpfa.BPFA(32, features="factorised", max_steps=10, device="cuda", random_state=0).fit(y)
print(time.perf_counter() - began)
"""


def main() -> None:
    arguments = parse()
    cupy = cupy_module()
    with on_device(arguments.device):
        name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
        results: dict[str, Any] = {
            "card": name,
            "cupy": cupy.__version__,
            "python": platform.python_version(),
            "work": {},
        }
        for section in arguments.sections:
            SECTIONS[section](results, arguments)
            arguments.output.parent.mkdir(parents=True, exist_ok=True)
            arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\n{name}")
    for work, found in results["work"].items():
        must, aim = ASKED.get(work, (None, None))
        asked = "" if must is None else f"  must {shown(must)}, aim {shown(aim)}"
        print(f"{work:58} {shown(found['seconds']):>10}{asked}  {found.get('note', '')}")


def markdown(results: dict) -> str:
    """The table of benchmarks/README.md."""
    ceilings = results["ceilings"]
    rows = []
    for work, found in results["work"].items():
        must, aim = (shown(seconds) for seconds in ASKED[work]) if work in ASKED else ("", "")
        share = f"{found['fma_share']:.0%}" if "fma_share" in found else ""
        rows.append([work, shown(found["seconds"]), must, aim, share, found.get("note", "")])
    return (
        f"{results['card']}: {ceilings['copied_bytes_a_second'] / 1e12:.1f} TB copied (read and written) and "
        f"{ceilings['multiply_adds_a_second'] / 1e12:.0f} T float32 multiply-adds a second, measured.\n\n"
        + table(["", "measured", "asked", "hoped", "share of the multiply-adds", ""], rows)
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="data folder")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "gpu.json")
    return parser.parse_args()


def shown(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def median_seconds(work: Callable[[], object], n_rounds: int = 9) -> float:
    """Of the device, between two of its own events; the first rounds are not counted."""
    cupy = cupy_module()
    times = []
    for round_ in range(n_rounds + 2):
        began, ended = cupy.cuda.Event(), cupy.cuda.Event()
        began.record()
        work()
        ended.record()
        ended.synchronize()
        if round_ >= 2:
            times.append(cupy.cuda.get_elapsed_time(began, ended) / 1e3)
    return float(np.median(times))


def ceilings(results: dict, arguments: argparse.Namespace) -> None:
    cupy = cupy_module()
    source = cupy.zeros(2**29, cupy.float32)
    target = cupy.empty_like(source)
    copied = median_seconds(lambda: cupy.copyto(target, source))
    function = cupy.RawKernel(FMA_SOURCE, "multiply_add")
    n, blocks, threads = 20_000, 132 * 16, 256
    out = cupy.zeros(1, cupy.float32)
    run = median_seconds(lambda: function((blocks,), (threads,), (out, np.int32(n))))
    results["ceilings"] = {
        "copied_bytes_a_second": 2 * source.nbytes / copied,
        "multiply_adds_a_second": 8.0 * n * blocks * threads / run,
    }
    print(
        f"copy {results['ceilings']['copied_bytes_a_second'] / 1e12:.2f} TB/s, "
        f"{results['ceilings']['multiply_adds_a_second'] / 1e12:.1f} T float32 multiply-adds/s"
    )


def trained_view(rows: Any, source: Any, n_features: int, device: str) -> Any:
    """A draw of the globals after a short training that leaves about ten features to a row."""
    start = random_posterior(rows, n_features, seed=0, noise_share=0.1, features_per_row=10.0)
    posterior = DevicePosterior.of(start, device, "float32")
    steps = svi(
        source,
        posterior,
        Algorithm("gibbs-ssvi", "sampled", Gibbs(device=device)),
        n_steps=300,
        batch_size=1024,
        schedule=Schedule(),
        stream=Stream.from_seed(0),
    )
    return deque(steps, maxlen=1).pop().posterior.sampled(Stream.from_seed(1).globals(0))


def kernel_times(results: dict, arguments: argparse.Namespace) -> None:
    picture = standardised(image(arguments, "boat"))[None, :, :, None]
    view = None
    for share, name in ((0.2, "20% observed"), (1.0, "complete")):
        observed = np.random.default_rng(1).random(picture.shape) < share
        rows = PatchRows(picture, observed, (8, 8))
        source = rows_on_device(rows)
        # The same features for complete rows.
        view = trained_view(rows, source, 256, arguments.device) if view is None else view
        gibbs_times(results, arguments, rows, source, view, share, name)
        few = source.take(np.arange(65_536))
        for method in (SpikeSlab(device=arguments.device), MeanField(device=arguments.device)):
            seconds = median_seconds(partial(method.sums, view, few, Stream.from_seed(0).rows(few.ids, 1)), 3)
            work = f"{type(method).__name__}, 10 sweeps, 65,536 patches, {name}"
            results["work"][work] = {"seconds": seconds}


def gibbs_times(
    results: dict,
    arguments: argparse.Namespace,
    rows: PatchRows,
    source: Any,
    view: Any,
    share: float,
    name: str,
) -> None:
    batch: DeviceBatch = source.take(np.arange(rows.n_rows))
    draws = Stream.from_seed(0).rows(batch.ids, 1)
    gibbs = Gibbs(device=arguments.device)
    sums: Any = gibbs.sums(view, batch, draws)
    features = float(sums.n.sum()) / gibbs.n_samples / len(batch)
    chain = Chain(view, False, draws.key, draws.step, burn_in=gibbs.burn_in, n_samples=gibbs.n_samples)
    part = batch.part(0, min(len(batch), 131_072))
    seconds = median_seconds(lambda: gibbs.sums(view, batch, draws))
    alone = median_seconds(lambda: chain.kept(part)) * len(batch) / len(part)
    kept = chain.kept(part)
    adding = median_seconds(lambda: sums.add_kept(kept, part)) * len(batch) / len(part)
    ours = cpu_seconds(view.host(), rows, 8192) * len(batch) / 8192
    # Multiply-adds that the method needs: correlations of all features in every sweep where entries are
    # missing, and of none where the Gram matrix keeps them; either way one pass for every change.
    per_sweep = 256 * 64 * share if share < 1 else 0
    work = len(batch) * 6 * (per_sweep + features * (64 * share * 16 if share < 1 else 256))
    moved = len(batch) * 64 * 5
    found = {
        "seconds": seconds,
        "chains": alone,
        "adding_up": adding,
        "features_a_row": features,
        "cpu_seconds": ours,
        "multiply_adds": work,
        "bytes": moved,
    }
    if "ceilings" in results:
        found["fma_share"] = work / seconds / results["ceilings"]["multiply_adds_a_second"]
        found["copy_share"] = moved / seconds / results["ceilings"]["copied_bytes_a_second"]
    found["note"] = (
        f"chains {shown(alone)}, adding up {shown(adding)}, {features:.1f} features a row, CPU kernels "
        f"{shown(ours)} ({ours / seconds:.0f}x)"
    )
    results["work"][f"Gibbs, 255,025 patches, {name}"] = found


def cpu_seconds(view: Any, rows: PatchRows, n_rows: int) -> float:
    """Of our CPU kernels, all threads, for as many rows."""
    batch = rows.take(np.random.default_rng(0).choice(rows.n_rows, n_rows, replace=False))
    draws = Stream.from_seed(0).rows(batch.ids, 1)
    times = []
    for _ in range(4):
        began = time.perf_counter()
        kernels.Gibbs().sums(view, batch, draws)
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:]))


def step_times(results: dict, arguments: argparse.Namespace) -> None:
    """Steps from batch to posterior, as the loop makes them and without graphs."""
    picture = standardised(image(arguments, "boat"))[None, :, :, None]
    for share, name in ((0.2, "20% observed"), (1.0, "complete")):
        rows = PatchRows(picture, np.random.default_rng(1).random(picture.shape) < share, (8, 8))
        source = rows_on_device(rows)
        start = DevicePosterior.of(random_posterior(rows, 256, seed=0), arguments.device, "float32")
        for batch_size in (256, 1024, 4096, 16_384):
            title = f"a step, {batch_size:,} patches, {name}"
            results["work"][title] = times_a_step(source, start, batch_size)


def joint_step_times(results: dict, arguments: argparse.Namespace) -> None:
    """Steps of joint features, as BPFA makes them by default, on rows that use most of them."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(20_000, 26)) @ rng.normal(size=(26, 40)) + rng.normal(size=(20_000, 40))
    y = (y / y.std()).astype(np.float32)
    for hidden, name in ((0.0, "complete"), (0.05, "5% hidden")):
        rows = ArrayRows(np.where(rng.random(y.shape) < hidden, np.nan, y))
        source, start = rows_on_device(rows), principal_posterior(rows, 26, seed=0, features="joint")
        posterior = DevicePosterior.of(start, arguments.device, "float32")
        for batch_size in (1024, 4096):
            title = f"a step, {batch_size:,} rows of 40 columns, 26 joint features, {name}"
            results["work"][title] = times_a_step(source, posterior, batch_size)


def times_a_step(source: Any, posterior: Any, batch_size: int) -> dict[str, Any]:
    """As the loop makes them, and without graphs."""
    graphs, plain = (
        float(np.median([seconds_a_step(source, posterior, batch_size, kind) for _ in range(3)]))
        for kind in (StepGraphs(), None)
    )
    return {"seconds": graphs, "without_graphs": plain, "note": f"without graphs {shown(plain)}"}


def seconds_a_step(source: Any, posterior: Any, batch_size: int, graphs: StepGraphs | None) -> float:
    """Of 300 steps, after 100 others."""
    chosen, schedule = algorithm("gibbs-ssvi", device=posterior.device), Schedule()
    stream = Stream.from_seed(0)
    batches = read_batches(source, batch_size, stream)
    for step in range(1, 401):
        if step == 101:
            cupy_module().cuda.runtime.deviceSynchronize()
            began = time.perf_counter()
        posterior = svi_step(
            posterior, next(batches), chosen, step=step, rho=schedule(step), stream=stream, graphs=graphs
        )
    posterior.check_finite()
    return (time.perf_counter() - began) / 300


def image(arguments: argparse.Namespace, name: str) -> np.ndarray:
    return np.asarray(Image.open(arguments.data / "images" / f"{name}.png").convert("L")).astype(np.float64)


def standardised(picture: np.ndarray) -> np.ndarray:
    return ((picture - picture.mean()) / picture.std()).astype(np.float32)


def pictures(results: dict, arguments: argparse.Namespace) -> None:
    for name, share, noise, title in (
        ("boat", 0.2, 0.0, "Boat 512 x 512, 20% observed"),
        ("house", 0.5, 15.0, "House 256 x 256, 50% observed + noise 15"),
    ):
        truth = image(arguments, name)
        rng = np.random.default_rng(0)
        missing = rng.random(truth.shape) >= share
        seen = np.where(missing, np.nan, truth + noise * rng.standard_normal(truth.shape))
        restore = bpfa.denoise if noise else bpfa.inpaint
        where = np.ones_like(missing) if noise else missing

        def restored(steps: int, draws: int, seen=seen, restore=restore) -> tuple[np.ndarray, float]:
            began = time.perf_counter()
            result = restore(seen, max_steps=steps, n_draws=draws, device=arguments.device, random_state=0)
            return result.image, time.perf_counter() - began

        def score(picture: np.ndarray, truth=truth, where=where) -> float:
            return bpfa.psnr(truth, np.clip(picture, 0, 255), where)

        restored(20, 2)
        final_image, final_seconds = restored(1000, 8)
        final, ladder = score(final_image), []
        rungs = ((60, 2), (100, 2), (100, 4), (150, 4), (200, 4), (300, 4), (400, 4), (300, 8), (500, 8))
        for steps, draws in rungs:
            found = [restored(steps, draws) for _ in range(3)]
            seconds = float(np.median([taken for _, taken in found]))
            ladder.append({"steps": steps, "draws": draws, "seconds": seconds, "psnr": score(found[0][0])})
        ladder.append({"steps": 1000, "draws": 8, "seconds": final_seconds, "psnr": final})
        best = min((rung for rung in ladder if rung["psnr"] >= final - 0.2), key=lambda rung: rung["seconds"])
        results["work"][title] = {
            "seconds": best["seconds"],
            "final_psnr": final,
            "final_seconds": final_seconds,
            "reached_by": best,
            "ladder": ladder,
            "note": f"{best['psnr']:.2f} dB after {best['steps']} steps and {best['draws']} draws; "
            f"{final:.2f} dB after 1000 and 8, in {shown(final_seconds)}",
        }


def tables(results: dict, arguments: argparse.Namespace) -> None:
    """No public matrices of these shapes are at hand: rows drawn from the model, about ten features each."""
    cupy = cupy_module()
    for n_rows, n_columns, hidden, batch_size, title in (
        (532_000, 40, 0.05, 16_384, "532,000 x 40, K = 500, 5% hidden, 100 epochs"),
        (15_000, 450, 0.1, 1500, "15,000 x 450, K = 500, 10% hidden, 100 epochs"),
    ):
        rng = cupy.random.default_rng(0)
        phi = rng.standard_normal((500, n_columns), dtype=cupy.float32) / n_columns**0.5
        data = cupy.empty((n_rows, n_columns), cupy.float32)
        for first in range(0, n_rows, 50_000):
            n = min(50_000, n_rows - first)
            x = rng.standard_normal((n, 500), dtype=cupy.float32)
            x *= rng.random((n, 500), dtype=cupy.float32) < 10 / 500
            data[first : first + n] = x @ phi + 0.1 * rng.standard_normal((n, n_columns), dtype=cupy.float32)
        data /= data.std()
        data[rng.random(data.shape, dtype=cupy.float32) < hidden] = cupy.nan
        per_epoch = -(-n_rows // batch_size)
        times = []
        for n_epochs in (2, 100):
            began = time.perf_counter()
            steps = bpfa.train(
                data,
                500,
                n_steps=n_epochs * per_epoch,
                batch_size=batch_size,
                schedule=Schedule(),
                weight_precision="active",
                seed=0,
                device=arguments.device,
            )
            # Only the last: every posterior that is kept takes memory of the card.
            noise = deque(steps, maxlen=1).pop().posterior.noise_std
            times.append(time.perf_counter() - began)
        results["work"][title] = {
            "seconds": times[-1],
            "batch_size": batch_size,
            "microseconds_a_step": times[-1] / 100 / per_epoch * 1e6,
            "note": f"batches of {batch_size}, noise {noise:.3f}",
        }


def first_call(results: dict, arguments: argparse.Namespace) -> None:
    times = []
    for _ in range(3):
        process = subprocess.run(
            [sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True
        )
        times.append(float(process.stdout))
    results["work"]["first call in a fresh process, kernels cached"] = {
        "seconds": float(np.median(times[1:])),
        "note": f"the very first, which may compile: {times[0]:.2f} s",
    }


SECTIONS: dict[str, Callable[[dict, argparse.Namespace], None]] = {
    "ceilings": ceilings,
    "kernels": kernel_times,
    "steps": step_times,
    "joint steps": joint_step_times,
    "pictures": pictures,
    "tables": tables,
    "first call": first_call,
}

if __name__ == "__main__":
    main()
