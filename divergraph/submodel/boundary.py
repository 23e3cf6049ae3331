"""The boundary of a part of a graph: its inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from divergraph.submodel.constants import (
    READS,
    feeds_the_model,
    fetches,
    is_another_each_run,
    may_be_fed,
)
from divergraph.submodel.part_graph import PartGraph
from divergraph.submodel.selection import BoundaryTensor, Facts, Refusal, RefusalRule, with_facts
from graphstore.columns.coded import Bool, any_in
from graphstore.model import Op, Tensor, TensorRef
from graphstore.traverse.reach import reached

_NO_TENSOR = frozenset(
    (
        *("SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SequenceMap"),
        *("SplitToSequence", "Optional", "ZipMap"),
    )
)
"""ONNX ops whose results are not tensors."""
_FEW = 10_000
"""For fewer ops it is faster to look at each than at columns of all."""
SHAPE_TELLERS = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Ops whose results do not depend on values."""


class Boundaries:
    """Finds boundaries in one graph."""

    def __init__(self, graph: PartGraph, facts: Facts) -> None:
        self._graph, self._facts = graph, facts
        self._arrays, self._ops = graph.arrays, graph.ops
        self.constants = graph.constants
        self._initializers = {constant.tensor.name for constant in graph.header.constants}
        self._inputs = {tensor.name: tensor for tensor in graph.header.inputs}
        self._outputs = set(graph.header.outputs)

    def in_order(self, ops: Iterable[str]) -> tuple[str, ...]:
        """Op ids in execution order."""
        return tuple(sorted(ops, key=self._arrays.number.__getitem__))

    def parents(self, op: str) -> set[str]:
        """The ops that feed an op."""
        numbers = self._arrays.predecessors(self._arrays.number[op]).tolist()
        return {self._arrays.ids[number] for number in numbers}

    def children(self, ops: Iterable[str]) -> set[str]:
        """The ops that *ops* feed."""
        numbers = (self._arrays.successors(self._arrays.number[op]).tolist() for op in ops)
        return {self._arrays.ids[number] for child in numbers for number in child}

    def fed(self, chosen: set[str]) -> set[str]:
        """Those of *chosen* that only stand for inputs of the model."""
        perhaps = [op for op in chosen if self._may_feed[self._arrays.number[op]]]
        self._graph.fetch(perhaps)
        return {op for op in perhaps if feeds_the_model(self._ops[op])}

    @cached_property
    def _may_feed(self) -> Bool:
        return self._graph.kinds.where(lambda kind: may_be_fed(kind) or fetches(kind))

    def feeding_constants(self, chosen: set[str]) -> set[str]:
        """Ops that only make constants and feed the part: a cut there changes what a
        compiler does with them."""
        if len(chosen) < _FEW:
            first: Iterable[str] = chosen
        else:
            arrays, inside = self._arrays, self._graph.mask(chosen)
            read = arrays.predecessor_ops[np.repeat(inside, np.diff(arrays.predecessor_start))]
            is_read = np.zeros_like(inside)
            is_read[read] = True
            first = set(self._graph.ids(is_read & ~inside)) & self.constants
        return reached(first, lambda op: self.parents(op) & self.constants).keys() - chosen

    def going_in(
        self, chosen: set[str], constants: set[str], starts: set[str]
    ) -> Iterable[BoundaryTensor]:
        """The tensors that enter *chosen*; *starts* are where they are expected to."""
        users: dict[TensorRef | str, list[str]] = {}
        for op in self._taking_from_outside(chosen | constants):
            for ref, name in self._taken(self._ops[op]):
                key: TensorRef | str = ref or name
                inside = ref is not None and (ref.op in chosen or ref.op in constants)
                if not inside and name not in self._initializers:
                    users.setdefault(key, []).append(op)
        for key, by in users.items():
            frozen = isinstance(key, TensorRef) and self._tells_shape(key)
            side = not starts & set(by)
            yield replace(self._at_boundary(key, dict.fromkeys(by)), side=side, frozen=frozen)

    def _taking_from_outside(self, inside: set[str]) -> tuple[str, ...]:
        """Those of *inside* that may take a tensor of no op of it, in execution order, read."""
        if self._graph.bodies:
            return self.in_order(inside)  # what their bodies read counts, too
        has_given, number = self._graph.is_given, self._arrays.number
        if len(inside) < _FEW:
            taking = self.in_order(
                op for op in inside if has_given[number[op]] or not self.parents(op) <= inside
            )
        else:
            mask = self._graph.mask(inside)
            fed = any_in(self._arrays.predecessor_start, ~mask[self._arrays.predecessor_ops])
            taking = self._graph.ids(mask & (fed | has_given))
        self._graph.fetch(taking)
        return taking

    def _at_boundary(self, key: TensorRef | str, users: Iterable[str]) -> BoundaryTensor:
        tensor, facts = self._tensor(key), self._facts(key)
        dtype, shape = with_facts(tensor, facts)
        ref = key if isinstance(key, TensorRef) else None
        name, by = tensor.name or str(key), tuple(users)
        return BoundaryTensor(name, ref, dtype, shape, tensor.layout, by, dumped=facts.dumped)

    def _taken(self, op: Op) -> Iterator[tuple[TensorRef | None, str]]:
        """The inputs of an op, including what its bodies read from outside."""
        for op_input in op.inputs if op.type != READS else ():  # its value is a constant's
            if op_input is not None:
                yield (
                    op_input.producer or self._graph.arguments.get(op_input.tensor),
                    op_input.tensor,
                )
        for body in op.owns:
            for inner in self._graph.bodies.get(body, ()):
                for ref, name in self._taken(inner):
                    around = ref is None and (name in self._inputs or name in self._initializers)
                    if around or (ref is not None and self._is_around(ref, op)):
                        yield ref, name

    def _is_around(self, ref: TensorRef, owner: Op) -> bool:
        return ref.op in self._ops and self._graph.subgraph(ref.op) == owner.subgraph

    def _tells_shape(self, ref: TensorRef) -> bool:
        """Whether a tensor depends on shapes alone, so that its value is fixed with them."""
        waiting, seen = [ref.op], {ref.op}
        if ref.op in self.constants:
            return False
        while waiting:
            op = waiting.pop()
            kind = self._graph.type(op)
            if kind in SHAPE_TELLERS:
                continue
            if is_another_each_run(kind):
                return False
            parents = self._makers(op)
            fed = any(name in self._inputs for name in self._graph.given(op))
            if fed or not (parents or op in self.constants):
                return False
            for parent in parents:
                if parent not in seen and parent not in self.constants:
                    seen.add(parent)
                    waiting.append(parent)
        return True

    def _makers(self, op: str) -> Iterable[str]:
        """The ops that make inputs of an op; with bodies, calls are other edges."""
        if self._graph.bodies:
            return [ref.op for ref in self._ops[op].takes]
        return self.parents(op)

    def coming_out(
        self, chosen: set[str], ends: set[str], *, all_of_them: bool
    ) -> Iterable[BoundaryTensor]:
        """The outputs of *ends*, or every tensor that is used outside *chosen*."""
        makers = chosen if all_of_them else ends & chosen
        users = self._users_outside(makers, chosen)
        self._graph.fetch(makers)
        for op in self.in_order(makers):
            makes = self._ops[op].makes
            is_used = [ref in users or ref in self._outputs for ref in makes]
            for ref, used in zip(makes, is_used, strict=True):
                if not (op in ends or (all_of_them and used)):
                    continue
                if op in ends and not used and any(is_used):
                    continue  # a second output nobody takes
                yield self._at_boundary(ref, users.get(ref, ()))

    def _users_outside(self, makers: set[str], chosen: set[str]) -> dict[TensorRef, list[str]]:
        """The ops outside of *chosen* that take each output of *makers*, which are of it."""
        users: dict[TensorRef, list[str]] = {}
        outside = self.in_order(self.children(makers) - chosen)
        self._graph.fetch(outside)
        for op in outside:
            for ref, _ in self._taken(self._ops[op]):
                if ref is not None and ref.op in makers:
                    users.setdefault(ref, []).append(op)
        return users

    def _tensor(self, key: TensorRef | str) -> Tensor:
        if isinstance(key, str):
            return self._inputs.get(key, Tensor(key))
        outputs = self._ops[key.op].outputs
        return outputs[key.port] if key.port < len(outputs) else Tensor(str(key))

    def weights(self, ops: set[str]) -> tuple[str, ...]:
        """Names of constants that are no ops and that *ops* take."""
        if not self._initializers:
            return ()
        if self._graph.bodies:
            names = (name for op in ops for _, name in self._taken(self._ops[op]))
        else:
            names = (name for op in ops for name in self._graph.given(op))
        return tuple(sorted({name for name in names if name in self._initializers}))

    def without_form(
        self,
        inputs: Sequence[BoundaryTensor],
        outputs: Sequence[BoundaryTensor],
        ends: Sequence[str],
    ) -> Iterable[Refusal]:
        """Refusals for tensors of unknown shape or type, with ops to start or end at instead."""
        for tensor in (*inputs, *outputs):
            missing = [
                word
                for word, fact in (("shape", tensor.shape), ("type", tensor.dtype))
                if fact is None
            ]
            if not missing and self._is_tensor(tensor.ref):
                continue
            sentence = f"{tensor.name} has no known {' and '.join(missing)}; dump it"
            if not self._is_tensor(tensor.ref):
                sentence = f"{tensor.name} is not a tensor but a sequence or optional value"
            if tensor in outputs:
                below = tuple(op for op in tensor.users if not self._graph.subgraph(op))
                above: tuple[str, ...] = ()
                if tensor.ref is not None and below:
                    below = (*(op for op in ends if op != tensor.ref.op), *below)
            else:
                above, below = self._nearest(tensor, self._has_form), ()
            yield Refusal(RefusalRule.NO_FORM, sentence, above, below)

    def _has_form(self, key: TensorRef | str) -> bool:
        dtype, shape = with_facts(self._tensor(key), self._facts(key))
        of_tensor = isinstance(key, str) or self._is_tensor(key)
        return dtype is not None and shape is not None and of_tensor

    def _is_tensor(self, ref: TensorRef | None) -> bool:
        return ref is None or self._graph.type(ref.op) not in _NO_TENSOR

    def _is_dumped(self, key: TensorRef | str) -> bool:
        return self._facts(key).dumped

    def without_data(self, inputs: Sequence[BoundaryTensor]) -> Iterable[Refusal]:
        """Refusals for inputs that were not dumped, with ops to start at instead."""
        for tensor in inputs:
            if tensor.dumped:
                continue
            sentence = f"the input {tensor.name} was not dumped"
            above = self._nearest(tensor, self._is_dumped)
            offer = f"; start at {', '.join(above)} instead" if above else ""
            yield Refusal(RefusalRule.NO_DATA, sentence + offer, above)

    def _nearest(
        self, tensor: BoundaryTensor, good: Callable[[TensorRef | str], bool]
    ) -> tuple[str, ...]:
        """The nearest ops upwards all of whose inputs are *good*."""
        if tensor.ref is None:
            return ()
        waiting, seen, nearest = [tensor.ref.op], {tensor.ref.op}, []
        while waiting:
            level, waiting = waiting, []
            self._graph.fetch(level)
            for op in level:
                open_inputs = [
                    ref
                    for ref, name in self._taken(self._ops[op])
                    if not (ref and ref.op in self.constants)
                    and name not in self._initializers
                    and not good(ref or name)
                ]
                if not open_inputs:
                    nearest.append(op)
                for ref in open_inputs:
                    if ref is None:
                        return ()
                    if ref.op not in seen:
                        seen.add(ref.op)
                        waiting.append(ref.op)
        return self.in_order(nearest)

    def notes(self, inputs: Sequence[BoundaryTensor], added: set[str]) -> Iterable[str]:
        """Sentences on the decisions about the boundary."""
        if added:
            yield f"{len(added)} ops were added so that nothing is cut in the middle"
        for tensor in inputs:
            if tensor.frozen:
                yield f"{tensor.name} only tells shapes: it becomes a constant"
            elif tensor.side:
                yield f"{tensor.name} enters at {', '.join(tensor.users[:3])} from the side"
