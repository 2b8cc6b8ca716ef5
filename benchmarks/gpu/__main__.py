"""The speed of a GPU, compared with the limits of the card and with our CPU kernels.

`python -m benchmarks.gpu` measures kernels, pictures and tables, prints the times and writes
benchmarks/results/gpu.json. All times are medians after a warm-up.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.command import parser_with_data
from benchmarks.gpu.device import ceilings
from benchmarks.gpu.groups import groups
from benchmarks.gpu.kernels import kernel_times
from benchmarks.gpu.page import shown
from benchmarks.gpu.steps import joint_step_times, step_times
from benchmarks.gpu.whole import first_call, pictures, tables
from benchmarks.pages import SECTIONS as PAGE_SECTIONS
from bpfa.backends.cuda.runtime import cupy_module, on_device
from experiments.cells import write_results

SECTIONS: dict[str, Callable[[dict[str, Any], argparse.Namespace], None]] = {
    "ceilings": ceilings,
    "kernels": kernel_times,
    "steps": step_times,
    "joint steps": joint_step_times,
    "pictures": pictures,
    "groups": groups,
    "tables": tables,
    "first call": first_call,
}


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
            write_results(arguments.output, results)
    print(f"\n{name}")
    for work, found in results["work"].items():
        print(f"{work:58} {shown(found['seconds']):>10}  {found.get('note', '')}")


def parse() -> argparse.Namespace:
    parser = parser_with_data(__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--output", type=Path, default=PAGE_SECTIONS["gpu"].results)
    return parser.parse_args()


if __name__ == "__main__":
    main()
