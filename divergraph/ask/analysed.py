"""What root-cause analysis says of a run as a whole, read from what the run keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphstore.model import Method, Run

SUSPECT, GUILTY = 6.0, 10.0
"""Above these suspicions an op is suspect, guilty, where the run does not say otherwise."""


@dataclass(frozen=True, slots=True)
class EntryMismatch:
    """The sides were not given the same input: the device's is ``error`` off."""

    op: str
    tensor: str
    error: float | None
    floor: float | None


@dataclass(frozen=True, slots=True)
class Analysis:
    """Limits of suspicion, what ran the reference and in which precision the floors are.

    ``note`` says why there is no split. ``shares`` has the part of the error at the outputs
    by device op, signed.
    """

    method: Method
    suspect: float = SUSPECT
    guilty: float = GUILTY
    executor: str = ""
    precision: str = ""
    note: str = ""
    entry_mismatches: tuple[EntryMismatch, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    unexplained: float | None = None


def read_analysis(run: Run) -> Analysis:
    """The analysis of *run*; what is not there, or not of its kind, is left at its default."""
    kept = run.analysis
    limits, blame = _mapping(kept.get("limits")), _mapping(kept.get("blame"))
    shares = [_mapping(item) for item in _sequence(blame.get("shares"))]
    mismatches = [_mapping(item) for item in _sequence(kept.get("entry_mismatches"))]
    return Analysis(
        method=run.method,
        suspect=_or(limits.get("suspect"), SUSPECT),
        guilty=_or(limits.get("guilty"), GUILTY),
        executor=_text(kept.get("executor")),
        precision=_text(kept.get("precision")),
        note=_text(kept.get("note")),
        entry_mismatches=tuple(
            EntryMismatch(
                _text(item.get("op")),
                _text(item.get("tensor")),
                _number(item.get("error")),
                _number(item.get("floor")),
            )
            for item in mismatches
        ),
        shares={
            _text(item.get("op")): share
            for item in shares
            if (share := _number(item.get("share"))) is not None
        },
        unexplained=_number(blame.get("unexplained")),
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _or(value: object, otherwise: float) -> float:
    number = _number(value)
    return otherwise if number is None else number
