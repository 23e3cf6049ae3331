"""What is guilty in several runs: ops, op types, and what fused ops were made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from divergraph.ask.model_runs import models_of
from divergraph.ask.question import Question
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Origin, Run, Side


@dataclass(frozen=True, slots=True)
class Recurring:
    """Something that is guilty in several runs."""

    type: Annotated[str, "of the device ops"]
    pattern: Annotated[tuple[str, ...], "the types of the originals"]
    runs: tuple[str, ...]
    ops: Annotated[tuple[str, ...], "the device ops"]
    originals: Annotated[tuple[str, ...], "the golden ops they were held against"]
    suspicion: Annotated[float | None, "the largest; null where none is known"]


@dataclass(frozen=True, slots=True)
class RecurringAnswer:
    """Guilty in more than one run, most runs first."""

    runs: Annotated[int, "those that were looked at"]
    diverged: Annotated[int, "runs with an origin"]
    same_original: Annotated[tuple[Recurring, ...], "the same golden op of the same model"]
    same_pattern: Annotated[
        tuple[Recurring, ...], "device ops of one type made of originals of the same types"
    ]


@dataclass(frozen=True, slots=True)
class RecurringQuestion(Question[RecurringAnswer]):
    """Which ops, types and fusion patterns are guilty in several runs of the store?"""

    name = "recurring"
    example = "divergraph recurring"

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> RecurringAnswer:
        """All that recur, the most frequent first; original ops count by model."""
        return _recurring(store)


QUESTION = RecurringQuestion


@dataclass
class _Seen:
    type: str
    pattern: tuple[str, ...]
    runs: dict[str, None] = field(default_factory=dict)
    ops: dict[str, None] = field(default_factory=dict)
    originals: dict[str, None] = field(default_factory=dict)
    suspicion: float | None = None

    def add(self, run: str, origin: Origin) -> None:
        self.runs[run] = self.ops[origin.op] = None
        if origin.golden:
            self.originals[origin.golden[0].op] = None
        if origin.suspicion is not None:
            self.suspicion = max(self.suspicion or 0.0, origin.suspicion)

    def value(self) -> Recurring:
        return Recurring(
            self.type,
            self.pattern,
            tuple(self.runs),
            tuple(self.ops),
            tuple(self.originals),
            self.suspicion,
        )


def _recurring(store: GraphStore) -> RecurringAnswer:
    runs = store.runs()
    originals: dict[tuple[str, str], _Seen] = {}
    patterns: dict[tuple[str, tuple[str, ...]], _Seen] = {}
    origins = store.origins_of([run.name for run in runs])
    diverged = [run for run in runs if origins[run.name]]
    models = models_of(store, diverged)
    kinds = _OriginalTypes(store)
    for run in diverged:
        run_origins = origins[run.name]
        types = kinds.of(run, run_origins)
        for origin in run_origins:
            pattern = _pattern(types[ref.op] for ref in origin.golden)
            seen = patterns.setdefault((origin.type, pattern), _Seen(origin.type, pattern))
            seen.add(run.name, origin)
            if origin.golden:
                key = (models[run.golden], origin.golden[0].op)
                originals.setdefault(key, _Seen(origin.type, pattern)).add(run.name, origin)
    return RecurringAnswer(
        len(runs), len(diverged), _several(originals.values()), _several(patterns.values())
    )


def _pattern(types: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({kind for kind in types if kind is not None}))


def _several(seen: Iterable[_Seen]) -> tuple[Recurring, ...]:
    several = [one.value() for one in seen if len(one.runs) > 1]
    return tuple(sorted(several, key=lambda one: (-len(one.runs), one.type, one.originals)))


class _OriginalTypes:
    """The types of golden ops by id, asked for once for all runs of a graph."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._known: dict[str, dict[str, str | None]] = {}

    def of(self, run: Run, origins: list[Origin]) -> Mapping[str, str | None]:
        """Those of what *origins* of *run* were held against; None: no such op."""
        # A graph that came from no file has no hash: its name does not say which one it is.
        graph = run.name if run.golden.endswith("@") else run.golden
        types_of = self._known.setdefault(graph, {})
        names = {
            ref.op: None for origin in origins for ref in origin.golden if ref.op not in types_of
        }
        if names:
            ops = self._store.ops(run.name, list(names), Side.GOLDEN)
            types_of |= names | {op.id: op.type for op in ops.values()}
        return types_of
