"""Workers that do not suit a fit are named before it begins."""

import pytest
from cluster_settings import FIT

import bpfa


def change_one(client, change):
    """Change one of the workers; return its address."""
    address = sorted(client.nthreads())[0]
    client.run(change, workers=[address])
    return address


def test_a_worker_with_another_version_is_refused(cluster, chunked):
    def pretend():
        from bpfa.cluster import health

        health.own_version = lambda: "0.0.9"

    address = change_one(cluster, pretend)
    with pytest.raises(ValueError, match=f"worker {address} has bpfa 0.0.9; expected"):
        bpfa.BPFA(**FIT).fit(chunked)


def test_a_worker_without_bpfa_is_refused(cluster, chunked):
    def hide():
        import sys

        for name in [name for name in sys.modules if name.partition(".")[0] == "bpfa"]:
            del sys.modules[name]
        sys.modules["bpfa"] = None

    address = change_one(cluster, hide)
    with pytest.raises(ValueError, match=f"worker {address} has no bpfa, or another version"):
        bpfa.BPFA(**FIT).fit(chunked)
