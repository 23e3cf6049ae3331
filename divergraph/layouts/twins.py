"""Which golden call each call of a rank stands for, where the job is split over ranks otherwise.

A rank may call a module once for each micro batch where golden calls it once, number the layers of
its stage from 0, or lack those of other stages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from divergraph.graphs.lineage.recorded_calls import link_recorded_calls, plain_name
from graphstore.model import ModelGraph, Op, TensorRef
from importers.msprobe.calls import CallName

_MODULES = ("Module", "Cell")
_STEPS = 3
"""Calls that a gradient may pass between the way back and the optimizer: a sum over ranks, its
mean, a factor it is clipped by."""


@dataclass(frozen=True, slots=True)
class Twins:
    """``calls`` has the golden call of each device call that has one, by the device call's id;
    ``micro_batches`` the number of the micro batch a call is of, of ``count`` that are one in
    golden; ``golden_count`` how many of golden's are one of the device's."""

    calls: Mapping[str, Op]
    micro_batches: Mapping[str, int]
    count: int
    golden_count: int = 1


class ModuleCall(NamedTuple):
    """The name of a module's call taken apart: ``path`` is without the wrappers around the model,
    ``number`` counts the calls of this module."""

    kind: str
    path: str
    type: str
    way: str
    number: int

    @classmethod
    def of(cls, name: str) -> ModuleCall | None:
        """The parts of *name*; None unless it is that of a module's call."""
        kind, *parts = plain_name(name).split(".")
        if kind not in _MODULES or len(parts) < 3 or not parts[-1].isdecimal():
            return None
        *path, module, way, number = parts
        return cls(kind, ".".join(path), module, way, int(number))

    @property
    def name(self) -> str:
        """The name."""
        return ".".join(
            (self.kind, *filter(None, (self.path,)), self.type, self.way, str(self.number))
        )


def twins(golden: ModelGraph, device: ModelGraph, names: Mapping[str, str]) -> Twins:
    """The golden calls of the calls of *device*; *names* are paths of modules of *device* by which
    golden has other paths."""
    usual = _calls_of_modules(golden)
    types = {call.path: call.type for op in golden.ops if (call := ModuleCall.of(op.name))}
    ours = _calls_of_modules(device)
    count = _micro_batches(usual, ours, names)
    named: Counter[str] = Counter()
    for path, number in ours.items():
        named[golden_path(path, names)] += number
    golden_count = _micro_batches(named, usual, {})
    anchors = _reading_parameters(golden, {})
    if golden_count > 1:
        golden = _first_micro_batch(golden, _numbers(golden, {}, named))
    numbers = _numbers(device, names, usual) if count > 1 else dict.fromkeys(device.op_index(), 0)

    def renamed(name: str) -> str:
        call = ModuleCall.of(name)
        if call is None:
            return name
        path = golden_path(call.path, names)
        number = call.number % max(usual.get(path, 1), 1) if count > 1 else call.number
        return call._replace(path=path, type=types.get(path, call.type), number=number).name

    originals = golden.op_index()
    plain_golden = replace(golden, ops=tuple(map(_unshaped, golden.ops)))
    calls: dict[str, Op] = {}
    for number in range(count):
        part = {
            op.id: _unshaped(replace(op, name=renamed(op.name), subgraph=renamed(op.subgraph)))
            for op in device.ops
            if min(numbers[op.id], count - 1) == number
        }
        pairs = [
            (part[op.id], anchors[read])
            for read, op in _reading_parameters(device, names).items()
            if op.id in part and read in anchors
        ]
        plain_device = replace(device, ops=tuple(part.values()))
        linked = link_recorded_calls(plain_golden, plain_device, pairs) if part else None
        if linked is not None:
            calls.update((link.device, originals[link.original]) for link in linked[0])
    return Twins(calls, numbers, count, golden_count)


def golden_path(path: str, names: Mapping[str, str]) -> str:
    """The *path* of a module in golden, by the longest of *names* it begins with."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        start = names.get(".".join(parts[:end]))
        if start is not None:
            return ".".join((*filter(None, (start,)), *parts[end:]))
    return path


def _calls_of_modules(graph: ModelGraph) -> Counter[str]:
    """How often each module was called, by its path."""
    calls = (ModuleCall.of(op.name) for op in graph.ops)
    return Counter(call.path for call in calls if call is not None and call.way == "forward")


def _micro_batches(usual: Counter[str], ours: Counter[str], names: Mapping[str, str]) -> int:
    """How many calls of a module stand for one of golden's, by most modules; 1 where none does."""
    times = Counter(
        divmod(number, usual[golden])
        for path, number in ours.items()
        if (golden := golden_path(path, names)) in usual
    )
    (count, rest), _ = times.most_common(1)[0] if times else ((1, 0), 0)
    return count if count > 1 and not rest else 1


def _first_micro_batch(golden: ModelGraph, numbers: Mapping[str, int]) -> ModelGraph:
    """*golden* without the calls of all micro batches but the first, and with its update."""
    back = [at for at, op in enumerate(golden.ops) if CallName.of(op.name).way != "forward"]
    end = back[-1] if back else len(golden.ops)
    kept = (op for at, op in enumerate(golden.ops) if at > end or not numbers[op.id])
    return replace(golden, ops=tuple(kept))


def _numbers(device: ModelGraph, names: Mapping[str, str], usual: Counter[str]) -> dict[str, int]:
    """The micro batch of each call: that of the module it is of or in, or of its way there; of a
    function that no module calls that of the module called last."""
    numbers: dict[str, int] = {}
    by_name: dict[str, int] = {}
    last = 0
    for op in device.ops:
        call = ModuleCall.of(op.name) or ModuleCall.of(op.subgraph)
        before = [by_name[name] for name in CallName.of(op.name).before if name in by_name]
        if call is not None:
            number = call.number // max(usual.get(golden_path(call.path, names), 1), 1)
            last = number if call.way == "forward" else last
        else:
            number = before[0] if before else last
        numbers[op.id] = by_name[op.name] = number
    return numbers


def _unshaped(op: Op) -> Op:
    """*op* without shapes, which are those of parts and tell nothing."""
    return replace(op, outputs=tuple(replace(tensor, shape=None) for tensor in op.outputs))


def _reading_parameters(
    graph: ModelGraph, names: Mapping[str, str]
) -> dict[tuple[str, tuple[str, ...]], Op]:
    """The calls that no module makes and that read a parameter or its gradient, as an optimizer's
    do, by type and what they read; those alike in both are left out."""
    ops = graph.op_index()
    constants = {constant.tensor.name for constant in graph.constants}
    bodies = {body.name for body in graph.subgraphs if body.owner}
    calls: dict[tuple[str, tuple[str, ...]], list[Op]] = {}
    for op in graph.ops:
        if op.subgraph in bodies or ModuleCall.of(op.name) or CallName.of(op.name).way != "forward":
            continue
        read = []
        for ref in op.inputs:
            if ref is not None and ref.producer is None and ref.tensor in constants:
                read.append(parameter(ref.tensor, names))
            elif ref is not None and ref.producer is not None:
                read.append(_gradient_of(ref.producer, ops, names))
        if any(read):
            calls.setdefault((op.type, tuple(filter(None, read))), []).append(op)
    return {read: alike[0] for read, alike in calls.items() if len(alike) == 1}


def parameter(name: str, names: Mapping[str, str]) -> str:
    """``blocks.0.q weight`` of the name of a parameter or its gradient, by its path in golden;
    empty if *name* is none."""
    before, mark, own = name.partition(".parameters.")
    call = ModuleCall.of(before) if mark else None
    return "" if call is None else f"{golden_path(call.path, names)} {own}"


def _gradient_of(source: TensorRef, ops: Mapping[str, Op], names: Mapping[str, str]) -> str:
    """The parameter that *source* is the gradient of, summed or scaled perhaps; empty if it is
    none."""
    for _ in range(_STEPS):
        op = ops[source.op]
        call = ModuleCall.of(op.name)
        if call is not None and call.way == "parameters_grad":
            weight = op.outputs[source.port].name.removeprefix(f"{op.name}.").rpartition(".")[0]
            return f"gradient of {golden_path(call.path, names)} {weight}"
        before = next((ref.producer for ref in op.inputs if ref and ref.producer), None)
        if call is not None or before is None:
            break
        source = before
    return ""
