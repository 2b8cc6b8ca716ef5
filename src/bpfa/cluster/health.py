"""What is known about workers, and whether they suit a fit and one another."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from bpfa.backends.cpu.local import instruction_sets
from bpfa.backends.registry import BACKENDS

__all__ = ["Member", "check_members", "greeted", "problems_of"]

# The memory of a worker that has no limit counts as this many bytes.
UNLIMITED = 2**40


class Member(NamedTuple):
    """What a worker says of itself."""

    version: str
    """Of bpfa."""
    numpy: str
    n_threads: int
    memory: float
    """Bytes."""
    instruction_set: str
    card: str | None
    """Its GPU, if it can use one."""
    card_problem: str | None


def own_version() -> str:
    """Return the version of bpfa in this process."""
    return version("bpfa")


def introduce(dask_worker: Any = None) -> Member:
    """Return what this worker is."""
    import numpy

    problem = BACKENDS["cuda"].problem()
    return Member(
        own_version(),
        numpy.__version__,
        int(dask_worker.state.nthreads),
        float(dask_worker.memory_manager.memory_limit or UNLIMITED),
        instruction_sets()[0],
        BACKENDS["cuda"].description() if problem is None else None,
        problem,
    )


def greeted(client: Any, addresses: Sequence[str]) -> dict[str, Member]:
    """Return what workers say of themselves; those that vanish meanwhile are left out."""
    found = {}
    for address, answer in client.run(introduce, workers=list(addresses), on_error="return").items():
        if isinstance(answer, Member):
            found[address] = answer
        # A lost connection is an OSError. Else the worker could not import this module, and Dask passes that
        # error on as a plain Exception.
        elif not isinstance(answer, OSError):
            raise ValueError(
                f"client: worker {address} has no bpfa, or another version ({answer}); expected "
                f"bpfa {own_version()}, as here"
            ) from answer
    return found


def problems_of(members: Mapping[str, Member]) -> list[str]:
    """Return what is wrong with workers: other versions than here, or processors and cards that differ.

    Examples
    --------
    >>> member = Member(own_version(), "2.0", 1, 1e9, "avx2", None, None)
    >>> problems_of({"tcp://a": member, "tcp://b": member._replace(n_threads=2)})
    ['workers differ in threads: 1, 2']
    """
    found = [
        f"{address} has bpfa {member.version}, and this process {own_version()}"
        for address, member in members.items()
        if member.version != own_version()
    ]
    for name, what in (
        ("n_threads", "threads"),
        ("instruction_set", "instruction sets"),
        ("numpy", "versions of NumPy"),
        ("card", "cards"),
    ):
        values = sorted({str(getattr(member, name)) for member in members.values()})
        if len(values) > 1:
            found.append(f"workers differ in {what}: {', '.join(values)}")
    return found


def check_members(members: Mapping[str, Member], device: str) -> str:
    """Return on which kind of device workers run the local steps, after checking that all of them can.

    Parameters
    ----------
    members : mapping
        From addresses to what workers say of themselves.
    device : str
        As the user says it: "auto" is a GPU if every worker has one, and else the CPU.

    Examples
    --------
    >>> member = Member(own_version(), "2.0", 1, 1e9, "avx2", None, "CuPy is not installed")
    >>> check_members({"tcp://a": member}, "auto")
    'cpu'
    >>> check_members({"tcp://a": member}, "cuda")
    Traceback (most recent call last):
    ...
    ValueError: device='cuda': worker tcp://a cannot use a GPU, as CuPy is not installed
    """
    for address, member in members.items():
        if member.version != own_version():
            raise ValueError(
                f"client: worker {address} has bpfa {member.version}; expected {own_version()}, as here"
            )
    sets = {member.instruction_set for member in members.values()}
    if len(sets) > 1:
        logging.getLogger("bpfa").warning(
            "workers have different processors (%s), so that the last bits of results depend on which of "
            "them computes what",
            ", ".join(sorted(sets)),
        )
    without = {address: member for address, member in members.items() if member.card is None}
    if device == "auto":
        return "cpu" if without else "cuda"
    if device.startswith("cuda"):
        for address, member in without.items():
            raise ValueError(
                f"device={device!r}: worker {address} cannot use a GPU, as {member.card_problem}"
            )
    return device
