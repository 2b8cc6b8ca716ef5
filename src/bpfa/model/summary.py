"""What the history of a fit records of a posterior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

__all__ = ["ReadableSummary", "Summary"]


class Summary(NamedTuple):
    """What the history of a fit records of a posterior."""

    noise_std: float
    n_active: int

    @staticmethod
    def read(summaries: Sequence[Summary]) -> list[Summary]:
        """Return several summaries as numbers; those on a device are copied from it together."""
        return list(summaries)


class ReadableSummary(Protocol):
    """A `Summary`, or something from which one can be read later, such as numbers on a device."""

    @staticmethod
    def read(summaries: Sequence[Any]) -> list[Summary]:
        """Return several summaries of this class as numbers."""
