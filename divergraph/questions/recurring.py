"""What is guilty in several runs: ops, op types, and what fused ops were made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from graphstore.contract import GraphStore
from graphstore.model import Origin, Run, Side


@dataclass(frozen=True, slots=True)
class Recurring:
    """Something that is guilty in ``runs``.

    ``type`` is the type of the device ops, ``pattern`` the sorted types of the originals in
    them; ``ops`` are their names and ``originals`` those of the tensors they were held
    against. ``largest`` is the largest suspicion, if any is known.
    """

    type: str
    pattern: tuple[str, ...]
    runs: tuple[str, ...]
    ops: tuple[str, ...]
    originals: tuple[str, ...]
    largest: float | None


@dataclass(frozen=True, slots=True)
class RecurringAnswer:
    """Guilty in more than one run: the same original, the same pattern; most runs first.

    ``runs`` counts those that were looked at, ``diverged`` those with an origin.
    """

    runs: int
    diverged: int
    same_original: tuple[Recurring, ...]
    same_pattern: tuple[Recurring, ...]


@dataclass
class _Seen:
    type: str
    pattern: tuple[str, ...]
    runs: dict[str, None] = field(default_factory=dict)
    ops: dict[str, None] = field(default_factory=dict)
    originals: dict[str, None] = field(default_factory=dict)
    largest: float | None = None

    def add(self, run: str, origin: Origin) -> None:
        self.runs[run] = self.ops[origin.op] = None
        if origin.golden:
            self.originals[origin.golden[0].op] = None
        if origin.suspicion is not None:
            self.largest = max(self.largest or 0.0, origin.suspicion)

    def value(self) -> Recurring:
        return Recurring(
            self.type,
            self.pattern,
            tuple(self.runs),
            tuple(self.ops),
            tuple(self.originals),
            self.largest,
        )


def recurring(store: GraphStore) -> RecurringAnswer:
    """What is guilty in more than one run of *store*."""
    runs = store.runs()
    originals: dict[tuple[str, str], _Seen] = {}
    patterns: dict[tuple[str, tuple[str, ...]], _Seen] = {}
    diverged = 0
    for run in runs:
        found = store.origins(run.name)
        diverged += bool(found)
        types = _original_types(store, run, found)
        for origin in found:
            pattern = tuple(sorted({types[ref.op] for ref in origin.golden if ref.op in types}))
            seen = patterns.setdefault((origin.type, pattern), _Seen(origin.type, pattern))
            seen.add(run.name, origin)
            if origin.golden:
                key = (_model(run), origin.golden[0].op)
                originals.setdefault(key, _Seen(origin.type, pattern)).add(run.name, origin)
    return RecurringAnswer(
        len(runs), diverged, _several(originals.values()), _several(patterns.values())
    )


def _model(run: Run) -> str:
    """The golden graph of a run without the part that says which file it was."""
    return run.golden.rpartition("@")[0] or run.golden


def _several(seen: Iterable[_Seen]) -> tuple[Recurring, ...]:
    several = [one.value() for one in seen if len(one.runs) > 1]
    return tuple(sorted(several, key=lambda one: (-len(one.runs), one.type, one.originals)))


def _original_types(store: GraphStore, run: Run, found: list[Origin]) -> dict[str, str]:
    names = list(dict.fromkeys(ref.op for origin in found for ref in origin.golden))
    ops = store.ops(run.name, names, Side.GOLDEN) if names else {}
    return {op.id: op.type for op in ops.values()}
