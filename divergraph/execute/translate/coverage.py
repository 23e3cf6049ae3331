"""How much of a model has translations, without running it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from divergraph.execute.contract import ExecutorFactory
from divergraph.execute.installed import factories
from divergraph.execute.translate.contract import OpRows
from divergraph.execute.translate.ge.executor import DeviceOpsFactory
from divergraph.execute.translate.plugged import with_plugged
from graphstore.errors import ExecutionError
from graphstore.model import ModelGraph, Op


@runtime_checkable
class TranslatingFactory(ExecutorFactory, Protocol):
    """A factory that translates models by a table."""

    rows: OpRows
    """The table, without the rows of plug-ins."""

    def computes(self, op: Op) -> bool:
        """Whether *op* computes numbers from its inputs, so that a run needs a row for it."""
        ...


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many ``ops`` a run of the model computes and how many of them are ``translated``; the
    same of their types. ``without`` counts by type the ops that have no translation."""

    ops: int
    translated: int
    types: int
    translated_types: int
    without: Mapping[str, int]


def _translating() -> list[TranslatingFactory]:
    """What translates models or, of Ascend, single ops."""
    translating = [factory for factory in factories() if isinstance(factory, TranslatingFactory)]
    return [*translating, DeviceOpsFactory()]


def row_counts() -> dict[str, int]:
    """How many op types of each framework have a translation, plug-ins counted in."""
    tables = (with_plugged(factory.rows) for factory in _translating())
    return {rows.framework: len(rows.entries) for rows in tables}


def coverage(graph: ModelGraph) -> Coverage:
    """Which ops of *graph* have a translation. What a run is fed or given is not counted.

    Raises:
        ExecutionError: models of this framework are not translated.
    """
    factory = next((factory for factory in _translating() if factory.accepts(graph)), None)
    if factory is None:
        raise ExecutionError(
            f"{graph.framework} models are not translated op by op", where=graph.source
        )
    rows = with_plugged(factory.rows)
    fed = {tensor.name for tensor in graph.inputs}
    computed = (
        op
        for op in graph.ops
        if factory.computes(op)
        and (not op.outputs or any(tensor.name not in fed for tensor in op.outputs))
    )
    counts = Counter(op.type for op in computed)
    without = {kind: count for kind, count in counts.most_common() if kind not in rows}
    ops = sum(counts.values())
    return Coverage(
        ops, ops - sum(without.values()), len(counts), len(counts) - len(without), without
    )
