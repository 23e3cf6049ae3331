"""The verdicts of an oracle, and the list of everything that was tried."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from graphstore.model import OracleAnswer, PartVerdict


class Variant(StrEnum):
    """What a part is fed."""

    GOLDEN = "golden"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class Probe:
    """One question: does this part fail?

    ``parent`` is the number of the probe that led to this one, None for the first ones;
    ``why`` the reason it was asked. ``calls`` of the oracle were made for it; none where
    the answer was known: ``known`` then says whence (``an earlier session``).
    ``units`` are numbers in the search space, for those who look closer.
    """

    number: int
    parent: int | None
    why: str
    units: frozenset[int]
    ops: int
    variant: Variant
    judgement: OracleAnswer
    calls: int = 0
    known: str = ""
    seconds: float = 0.0

    @property
    def verdict(self) -> PartVerdict:
        """What it said."""
        return self.judgement.verdict
