"""A rule by which jobs split tensors over ranks: a file of ``rules`` each, or a plug-in's."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Protocol, cast

from divergraph.files.discovered import discovered
from divergraph.layouts.placements import Placement
from divergraph.layouts.shares import Runs

ENTRY_POINT_GROUP = "divergraph.layouts"


class LayoutRule(Protocol):
    """What a module of ``rules`` gives as ``RULE``."""

    name: str

    def parts(self, golden_length: int, length: int) -> Iterable[Runs]:
        """The ways to have *length* of the *golden_length* places of an axis; none of a rule that
        is found in another way. They are tried where values alone do not say."""
        ...

    def words(self, placement: Placement) -> str:
        """What a rank has by this rule (``half 1 of 2 of its rows``); empty if *placement* does not
        follow it."""
        ...


@cache
def rules() -> tuple[LayoutRule, ...]:
    """All rules, built-in ones first, by name."""
    found = discovered("divergraph.layouts.rules", "RULE", ENTRY_POINT_GROUP)
    return tuple(cast("LayoutRule", rule) for rule in found)
