"""Decide for every device tensor which golden dump it is compared with, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from divergraph.graphs.lineage import Lineage, Unmatched
from divergraph.graphs.lineage.golden_tensors import Counterpart
from divergraph.values.orders import is_reordered
from divergraph.values.tensor_pair import TensorPair
from graphstore.model import (
    Comparison,
    DType,
    DumpTensorRef,
    LineageRule,
    ModelGraph,
    Op,
    Reason,
    Tensor,
    TensorIO,
    TensorMatch,
    TensorRef,
)
from importers.dumps.index import DumpIndex
from importers.msprobe.graph import own_inputs

_NO_TASK_TYPES = frozenset(
    {"Data", "RefData", "Const", "Constant", "ConstantOp", "Variable", "AnnData", "AippData"}
)
_QUANTISED = frozenset(
    {DType.INT8, DType.UINT8, DType.INT4, DType.UINT4, DType.QINT8, DType.QUINT8}
)
_REAL = frozenset({DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.BFLOAT16})

_IN_A_LIST = re.compile(r"\.\d+\.\d+$")
_NO_DUMP = frozenset({Reason.NO_DEVICE_DUMP, Reason.NO_GOLDEN_DUMP})
_Key = tuple[str, TensorIO, int]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two dumped tensors to compare; ``origin_layout`` is what the golden side has."""

    op: Op
    io: TensorIO
    port: int
    match: TensorMatch
    device: DumpTensorRef
    golden: DumpTensorRef
    origin_layout: str | None
    golden_layout: str | None
    outside: bool = False
    """An input no op of golden makes: weights, data, or what an unrecorded op made."""

    @property
    def tensors(self) -> TensorPair:
        """The request for the values of both."""
        return TensorPair(
            self.device, self.golden, self.origin_layout, self.golden_layout, self.match.reorder
        )


def pair_tensors(
    device_order: list[Op], lineage: Lineage, device: DumpIndex, golden: DumpIndex
) -> Iterator[Pair | Comparison]:
    """A pair, or a comparison with the reason, for each output and each dumped input of every
    device op."""
    pairing = _Pairing(lineage, device, golden)
    for op in device_order:
        yield from pairing.of_op(op)


class _Pairing:
    def __init__(self, lineage: Lineage, device: DumpIndex, golden: DumpIndex) -> None:
        self._lineage = lineage
        self._device = device
        self._golden = golden
        self._golden_ops = lineage.golden.graph.op_index()
        self._device_problems = _problems(device)
        self._inputs: dict[str, list[int]] = {}
        for op, io, port in sorted(device.tensors):
            if io is TensorIO.INPUT:
                self._inputs.setdefault(op, []).append(port)
        self._golden_problems = _problems(golden)
        guessed = lineage.golden.graph.has_guessed_edges
        self._links = {link.device: link for link in lineage.links} if guessed else {}

    def of_op(self, op: Op) -> Iterator[Pair | Comparison]:
        for position in self._inputs.get(op.id, ()):
            if own := self._own_input(op, position):
                yield self._pair(op, TensorIO.INPUT, position, *own)
                continue
            match = self._lineage.input_match(op, position)
            if match is None:
                match = Unmatched(Reason.NO_ORIGINAL, "the input is fed by no op of the graph")
            elif isinstance(match, Unmatched) and match.reason is Reason.NO_TASK:
                # What brings the value in runs no task; what reads it here does.
                match = Unmatched(Reason.UNKNOWN_ORIGINAL, match.detail)
            yield self._pair(op, TensorIO.INPUT, position, match)
        if not op.outputs:
            yield self._without_output(op)
        for ref in op.makes:
            yield self._pair(op, TensorIO.OUTPUT, ref.port, self._lineage.outputs[ref])

    def _own_input(
        self, op: Op, position: int
    ) -> tuple[TensorMatch, DumpTensorRef | None, bool] | None:
        """The same input of the golden twin: what makes it, its dump, and whether nothing makes it.
        Where edges are guessed, a producer with the same statistics may hold the same values in
        another order. None if there is no twin, or edges are known."""
        link = self._links.get(op.id)
        twin = None if link is None else self._golden_ops.get(link.original)
        if twin is None or link is None:
            return None
        place = _same_argument(op, position, twin)
        if place is None:
            return None
        dumped = self._golden.tensors.get((twin.id, TensorIO.INPUT, place))
        ref = twin.inputs[place] if place < len(twin.inputs) else None
        producer = None if ref is None else ref.producer
        source = producer or TensorRef(twin.id, 0)
        match = TensorMatch(TensorRef(op.id, position), source, link.rule, link.confidence)
        return match, dumped, producer is None or (dumped is None and self._is_turned(op, match))

    def _is_turned(self, op: Op, match: TensorMatch) -> bool:
        """Whether an input may have its values in another order than what makes it: that has
        another shape, or the device's own input has another order than what makes that one."""
        own = self._device.tensors.get((op.id, TensorIO.INPUT, match.device.port))
        source = self._golden.tensors.get((match.golden.op, TensorIO.OUTPUT, match.golden.port))
        if own is None or source is None:
            return False
        ref = op.source(match.device.port)
        made = (
            None if ref is None else self._device.tensors.get((ref.op, TensorIO.OUTPUT, ref.port))
        )
        return own.shape != source.shape or (made is not None and is_reordered(own, made))

    def _without_output(self, op: Op) -> Comparison:
        why = Unmatched(Reason.NO_OUTPUT, f"{op.type} has no output")
        if op.is_inserted:
            why = Unmatched(Reason.INSERTED, "inserted by the compiler, no original")
        return _not_compared(op, TensorIO.OUTPUT, -1, why, None, None)

    def _pair(
        self,
        op: Op,
        io: TensorIO,
        port: int,
        match: Counterpart,
        golden: DumpTensorRef | None = None,
        outside: bool = False,
    ) -> Pair | Comparison:
        device = self._device.tensors.get((op.id, io, port))
        if isinstance(match, Unmatched):
            return _not_compared(op, io, port, match, None, device)
        key = match.golden.op, TensorIO.OUTPUT, match.golden.port
        if golden is None and not outside:
            golden = self._golden.tensors.get(key)
        if device is None or golden is None:
            if outside:
                reason = f"{match.golden.op} has no such input in golden"
                return _not_compared(
                    op, io, port, Unmatched(Reason.NO_GOLDEN_DUMP, reason), None, device
                )
            why = self._no_golden_dump(match.golden)
            if device is None:
                why = self._no_device_dump(op, io, port)
            if match.rule is LineageRule.THROUGH_INSERTED and why.reason in _NO_DUMP:
                why = Unmatched(Reason.INSERTED, why.detail)
            return _not_compared(op, io, port, why, match, device)
        if device.dtype in _QUANTISED and golden.dtype in _REAL and device.scale is None:
            reason = f"{device.dtype} on the device against {golden.dtype}: the scale is not known"
            return _not_compared(op, io, port, Unmatched(Reason.QUANTISED, reason), match, device)
        tensor = self._tensor(op, io, port)
        origin = tensor.origin if tensor is not None else None
        return Pair(
            op,
            io,
            port,
            match,
            device,
            golden,
            None if origin is None else origin.layout,
            self._golden_layout(match.golden),
            outside,
        )

    def _tensor(self, op: Op, io: TensorIO, port: int) -> Tensor | None:
        """What the device graph says of the tensor; an input is its producer's output."""
        source, source_port = op, port
        if io is TensorIO.INPUT:
            ref = op.source(port)
            if ref is None:
                return None
            source, source_port = self._lineage.device_ops[ref.op], ref.port
        return source.outputs[source_port] if source_port < len(source.outputs) else None

    def _golden_layout(self, golden: TensorRef) -> str | None:
        op = self._golden_ops.get(golden.op)
        if op is None or golden.port >= len(op.outputs):
            return None
        tensor = op.outputs[golden.port]
        return tensor.layout if tensor.origin is None else tensor.origin.layout

    def _no_device_dump(self, op: Op, io: TensorIO, port: int) -> Unmatched:
        problem = self._device_problems.get((op.id, io, port)) or self._device_problems.get(op.id)
        if problem is not None:
            return problem
        if op.attrs.get("_no_task") is True or op.type in _NO_TASK_TYPES:
            return Unmatched(Reason.NO_TASK, f"{op.type} runs no task on the device")
        return Unmatched(Reason.NO_DEVICE_DUMP, f"no dump of {op.name} {io}:{port}")

    def _no_golden_dump(self, golden: TensorRef) -> Unmatched:
        key = (golden.op, TensorIO.OUTPUT, golden.port)
        problem = self._golden_problems.get(key) or self._golden_problems.get(golden.op)
        return problem or Unmatched(Reason.NO_GOLDEN_DUMP, f"no golden dump of {golden}")


def _same_argument(op: Op, position: int, twin: Op) -> int | None:
    """The place among the inputs of *twin* of what is input *position* of *op*: by the parameter's
    or the argument's name, as either side may lack one, else the same place. None in a list of
    another length, where no name tells."""
    own = op.inputs[position] if position < len(op.inputs) else None
    if own is not None and own.tensor.startswith(f"{op.name}."):
        suffix = own.tensor.removeprefix(op.name)
        is_listed = bool(_IN_A_LIST.search(suffix)) and own_inputs(op) != own_inputs(twin)
        for place, ref in enumerate(twin.inputs):
            if ref is not None and ref.tensor == twin.name + suffix:
                return None if is_listed else place
    return position if own_inputs(op) == own_inputs(twin) else None


def _problems(index: DumpIndex) -> dict[_Key | str, Unmatched]:
    """The problems of a dump by tensor, and by op where a file could not be read at all."""
    problems: dict[_Key | str, Unmatched] = {}
    for problem in index.problems:
        if problem.op is not None:
            has_place = problem.io is not None and problem.port is not None
            key: Any = (problem.op, problem.io, problem.port) if has_place else problem.op
            detail = f"{problem.path}: {problem.detail}"
            problems.setdefault(key, Unmatched(problem.reason, detail))
    return problems


def _not_compared(
    op: Op,
    io: TensorIO,
    port: int,
    why: Unmatched,
    match: TensorMatch | None,
    device: DumpTensorRef | None,
) -> Comparison:
    compared = Comparison(op.id, io, port, reason=why.reason, detail=why.detail)
    if device is not None:
        compared = replace(compared, device_dtype=device.dtype, device_path=str(device.path))
    if match is not None:
        address = None if device is None else device.address
        compared = replace(compared, golden=match.golden, rule=match.rule, address=address)
    return compared


def device_order(graph: ModelGraph, order: list[str]) -> list[Op]:
    """The ops of *graph* in execution order, given their ids in that order."""
    ops = graph.op_index()
    return [ops[op_id] for op_id in order]
