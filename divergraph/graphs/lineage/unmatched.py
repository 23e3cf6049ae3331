"""A device tensor that has no golden counterpart, and why."""

from __future__ import annotations

from dataclasses import dataclass

from graphstore.model import Reason


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Why a device tensor stands for no golden tensor; ``detail`` names the names."""

    reason: Reason
    detail: str = ""
