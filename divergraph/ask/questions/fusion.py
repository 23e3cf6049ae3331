"""Which fusion passes made the ops of a run at which errors start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.facts import Facts, load_facts, resolve_op
from divergraph.ask.fusion_passes import (
    NamedPass,
    PassInEffect,
    passes_in_effect,
    passes_of,
    switch_text,
)
from divergraph.ask.question import Parameter, Question, TargetName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Op


@dataclass(frozen=True, slots=True)
class FusedOp:
    """An op, the originals it was made of and the passes that made it, where the graph names
    them."""

    op: str
    type: str
    guilty: Annotated[bool, "an error starts here"]
    originals: tuple[str, ...]
    passes: tuple[NamedPass, ...]


@dataclass(frozen=True, slots=True)
class FusionAnswer:
    """The ops asked for, and the passes in effect."""

    run: str
    ops: tuple[FusedOp, ...]
    in_effect: Annotated[
        tuple[PassInEffect, ...],
        "passes that changed the graph, by the fusion_result.json next to it",
    ]
    switch: Annotated[str, "the text of a fusion switch file with the passes of these ops off"]

    @property
    def passes(self) -> tuple[NamedPass, ...]:
        """Those that made the ops, once each."""
        return tuple(dict.fromkeys(named_pass for op in self.ops for named_pass in op.passes))


@dataclass(frozen=True, slots=True)
class FusionQuestion(Question[FusionAnswer]):
    """Which fusion passes made an op? Without OP: the ops at which the error starts."""

    name = "fusion"
    example = "divergraph fusion RUN"

    run: TargetName
    ops: Annotated[
        tuple[str, ...],
        Parameter("Default: those at which the error starts.", is_argument=True, metavar="[OP]..."),
    ] = ()

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> FusionAnswer:
        """The ops with their passes, and what switches these off."""
        return fusion(store, self.run, self.ops)


QUESTION = FusionQuestion


def fusion(store: GraphStore, target: str, names: Sequence[str] = ()) -> FusionAnswer:
    """The passes behind the ops *names* of a run or imported graph.

    Without names: behind a run's origins and suspects, in an imported graph all ops with a pass.

    Raises:
        UnknownNameError: no such run, graph or op.
    """
    facts = load_facts(store, target)
    guilty = [origin.op for origin in facts.origins]
    if names:
        chosen = [resolve_op(store, target, name) for name in names]
    elif facts.run is not None:
        chosen = [*guilty, *(origin.op for origin in store.suspects(target))]
    else:
        chosen = list(facts.arrays.ids)
    chosen = list(dict.fromkeys(chosen))
    ops = store.ops(target, chosen)
    fused_ops = [_fused(facts, ops, op, guilty=op in guilty) for op in chosen if op in ops]
    if not names and facts.run is None:
        fused_ops = [fused_op for fused_op in fused_ops if fused_op.passes]
    passes = dict.fromkeys(named_pass for op in fused_ops for named_pass in op.passes)
    in_effect = passes_in_effect(store.graph_columns(target).header.attrs)
    return FusionAnswer(target, tuple(fused_ops), in_effect, switch_text(passes, indent=2))


def _fused(facts: Facts, ops: Mapping[str, Op], op: str, *, guilty: bool) -> FusedOp:
    row = facts.rows[facts.arrays.number[op]]
    names = row.originals or ops[op].original_names or ()
    return FusedOp(op, row.type, guilty, tuple(names), passes_of(ops[op].attrs))
