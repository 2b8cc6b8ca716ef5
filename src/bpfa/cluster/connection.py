"""The connection to a cluster: which workers there are, and whether the scheduler still answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bpfa.cluster.health import Member, greeted
from bpfa.data.remote import RowsLostError

__all__ = ["LOOK_SECONDS", "RETRIES", "WAIT_SECONDS", "Connection", "scheduler_answers"]

# How often a chunk that cannot be read is read again.
RETRIES = 2
# Seconds between two looks at whether workers have been lost, and how long a fit waits for the first worker
# after it has lost all of them.
LOOK_SECONDS, WAIT_SECONDS = 0.5, 60.0


class Connection:
    """A client of `dask.distributed`, and what is known about the workers of its scheduler.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.known: dict[str, Member] = {}
        """All workers that have ever been met."""

    def members(self) -> dict[str, Member]:
        """Return the workers that there are now, after checking those that are new."""
        with scheduler_answers(self.client):
            addresses = list(self.client.nthreads())
            new = [address for address in addresses if address not in self.known]
            if new:
                self.known |= greeted(self.client, new)
        return {address: self.known[address] for address in addresses if address in self.known}

    def some_members(self) -> dict[str, Member]:
        """Return the workers that there are, after waiting for the first if there are none."""
        began = time.monotonic()
        while not (members := self.members()):
            if time.monotonic() - began > WAIT_SECONDS:
                raise RowsLostError(
                    f"client: no worker at {self.client.scheduler.address} for {WAIT_SECONDS:g} seconds; "
                    "expected at least one"
                )
            time.sleep(LOOK_SECONDS)
        return members


@contextmanager
def scheduler_answers(client: Any) -> Iterator[None]:
    """Turn the errors that a lost scheduler causes into one that says so."""
    from distributed import CancelledError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except (CommClosedError, OSError, TimeoutError, CancelledError) as error:
        raise RowsLostError(
            f"client: the scheduler does not answer any more ({type(error).__name__}); the last step and the "
            "last checkpoint are whole, and fit(..., resume=True) goes on from there"
        ) from error
    except RuntimeError as error:
        if client.status == "running":
            raise
        raise RowsLostError(f"client: the client is closed ({error}); expected a running one") from error
