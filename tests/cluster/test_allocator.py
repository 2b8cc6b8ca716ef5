"""A worker that was told to return freed memory at once keeps it while it holds rows of a fit."""

import json
import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource
import numpy as np
from bpfa.cluster.allocator import keep_freed_memory, return_freed_memory

def faults():
    np.ones(2**17)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(2**17)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

told = faults()
keep_freed_memory()
kept = faults()
return_freed_memory()
print(json.dumps([told, kept, faults()]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
def test_blocks_of_a_step_cause_no_page_faults_until_the_fit_has_ended():
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    told, kept, after = json.loads(done.stdout)
    # A megabyte has 256 pages, which are touched 20 times.
    assert kept < 256
    assert min(told, after) > 20 * 200
