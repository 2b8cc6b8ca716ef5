"""A worker that was told to return freed memory at once keeps it while it holds rows of a fit."""

import json
import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, sys
import numpy as np
from bpfa.cluster.allocator import keep_freed_memory, return_freed_memory

def faults():
    n = int(sys.argv[1]) * 2**17
    np.ones(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(n)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

told = faults()
keep_freed_memory()
kept = faults()
return_freed_memory()
print(json.dumps([told, kept, faults()]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
@pytest.mark.parametrize("megabytes", [1, 8])
def test_blocks_of_a_step_cause_no_page_faults_until_the_fit_has_ended(megabytes):
    # The largest blocks are the kernels' lists of features that are on, with room for two million numbers.
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", SCRIPT, str(megabytes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    told, kept, after = json.loads(done.stdout)
    # How many there are depends on the size of pages, too.
    assert 10 * kept < min(told, after)
