"""Memory does not grow with the file, and what is read of it is in bounds that are written down."""

import subprocess
import sys

import numpy as np
import pytest

N, D = 3_000_000, 64

# Peak memory of a process of its own, in MiB above what it had before the file was touched.
CODE = """
import itertools, re, sys
import numpy as np
from bpfa.data import HeldOutRows, StandardisedRows, column_moments, open_rows, read_batches, sample_ids
from bpfa._support.philox import Stream

def peak():
    # getrusage would count what the parent process had when it started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

before = peak()
rows = open_rows(sys.argv[1])
assert (rows.n_rows, rows.n_columns) == (3_000_000, 64)
if sys.argv[2] == "sequential":
    moments = column_moments(rows)
    assert moments.n_observed[0] == rows.n_rows
else:
    rows = StandardisedRows(rows, np.zeros(64), np.ones(64))
    rows.take(sample_ids(rows, 1000, np.random.default_rng(0)))
    batches = read_batches(rows, 20_000, Stream.from_seed(0))
    assert sum(len(batch) for batch in itertools.islice(batches, 40)) == 800_000
    batches.close()
print(peak() - before)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """768 MB of zeros, most of which take no room on the disk."""
    path = tmp_path_factory.mktemp("large") / "zeros.npy"
    with open(path, "wb") as stream:
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "<f4", "fortran_order": False, "shape": (N, D)}
        )
        stream.truncate(stream.tell() + 4 * N * D)
    return path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("way", "limit"), [("sequential", 60), ("shuffled", 260)])
def test_peak_memory(file, way, limit):
    done = subprocess.run([sys.executable, "-c", CODE, str(file), way], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    grown = float(done.stdout)
    print(f"{way}: {grown:.0f} MiB")
    assert 0 < grown < limit
