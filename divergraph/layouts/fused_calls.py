"""Golden's run with calls of one layer for those of several, as a rank has them that fuses them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from divergraph.layouts.fused_layers import FusedLayer
from divergraph.layouts.twins import ModuleCall
from graphstore.model import (
    Constant,
    DumpTensorRef,
    InputRef,
    ModelGraph,
    Op,
    Subgraph,
    TensorCut,
    TensorIO,
    TensorJoin,
    TensorRef,
)
from importers.dumps.index import DumpIndex, TensorKey
from importers.msprobe.graph import own_inputs

_ROWS, _COLUMNS = 0, -1
_NUMBER = re.compile(r"\.(\d+)\.")


def with_fused_layers(
    golden: ModelGraph, dump: DumpIndex, layers: Sequence[FusedLayer]
) -> tuple[ModelGraph, DumpIndex]:
    """*golden* and its *dump* with each of the fused *layers* in place of golden's own.

    What such a layer reads is what the first of them reads, its weights are theirs joined by rows,
    and what it gives is what they give, side by side. The gradient of its input is a sum nobody
    dumped, and is left out.
    """
    fusing = _Fusing(golden, dump)
    for layer in layers:
        fusing.fuse(layer)
    return fusing.graph(), replace(dump, tensors=fusing.tensors)


@dataclass
class _Fusing:
    golden: ModelGraph
    dump: DumpIndex
    fused: dict[str, list[Op]] = field(default_factory=dict)
    """What stands in place of a call."""
    stands_for: dict[str, str] = field(default_factory=dict)
    """By call that is gone the one that has its place."""
    constants: dict[str, Constant] = field(default_factory=dict)
    bodies: list[Subgraph] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tensors = dict(self.dump.tensors)
        self._parameters = {each.tensor.name: each for each in self.golden.constants}
        self._bodies = {each.name: each for each in self.golden.subgraphs}
        self._keys: dict[str, list[TensorKey]] = {}
        for key in self.tensors:
            self._keys.setdefault(key[0], []).append(key)
        self._calls: dict[str, dict[tuple[str, int], list[Op]]] = {}
        for op in self.golden.ops:
            call = ModuleCall.of(op.name) or ModuleCall.of(op.subgraph)
            if call is not None:
                calls = self._calls.setdefault(call.path, {})
                calls.setdefault((call.way, call.number), []).append(op)

    def fuse(self, layer: FusedLayer) -> None:
        """Put one layer in place of its parts, where all are called alike."""
        parts = [self._calls.get(path, {}) for path in layer.layers]
        for key, first in parts[0].items():
            rows = [part.get(key, []) for part in parts]
            if all([op.type for op in ops] == [op.type for op in first] for ops in rows):
                for ops in zip(*rows, strict=True):
                    self._join(layer, ops)

    def _join(self, layer: FusedLayer, ops: Sequence[Op]) -> None:
        """Put one call in place of *ops*, one of each part."""
        first = ops[0]
        call = ModuleCall.of(first.name) or ModuleCall.of(first.subgraph)
        assert call is not None
        renamed = {call.name: call._replace(path=layer.golden_path).name}
        is_part = len(ops) == 1
        if is_part and first.name not in renamed:  # numbers tell functions apart
            zeros = "0" * (1 + len(self.fused.get(first.id, ())))
            renamed[first.name] = _NUMBER.sub(rf".{zeros}\1.", first.name)
        new = f"{first.id} as {layer.golden_path}" if is_part else first.id
        tensors: dict[TensorKey, DumpTensorRef] = {}

        def put(io: TensorIO, port: int, axis: int | None) -> tuple[int, ...] | None:
            refs = [self.tensors.get((op.id, io, port)) for op in ops]
            ref = refs[0] if axis is None else _side_by_side(layer, refs, axis)
            if ref is not None:
                tensors[new, io, port] = replace(ref, op=new)
            return None if ref is None else ref.shape

        for port, taken in enumerate(first.inputs):
            is_weight = taken is not None and taken.tensor in self._parameters
            is_back = call.way == "backward" and port < own_inputs(first)
            put(TensorIO.INPUT, port, _ROWS if is_weight else _COLUMNS if is_back else None)
        axes = {"forward": _COLUMNS, "parameters_grad": _ROWS}
        outputs = tuple(
            replace(
                tensor,
                name=_renamed(tensor.name, renamed),
                shape=put(TensorIO.OUTPUT, port, axes[call.way]) if call.way in axes else None,
            )
            for port, tensor in enumerate(first.outputs)
        )
        for op in ops if not is_part else ():
            self.stands_for[op.id] = new
            for key in self._keys.get(op.id, ()):
                self.tensors.pop(key, None)
        self.tensors |= tensors
        self._declare(first, renamed, new)
        joined = replace(
            first,
            id=new,
            name=_renamed(first.name, renamed),
            subgraph=_renamed(first.subgraph, renamed),
            inputs=tuple(
                taken and replace(taken, tensor=_renamed(taken.tensor, renamed))
                for taken in first.inputs
            ),
            outputs=outputs,
        )
        self.fused.setdefault(first.id, []).append(joined)

    def _declare(self, first: Op, renamed: Mapping[str, str], new: str) -> None:
        """The parameters that *first* reads and the body it owns, by their new names."""
        for taken in first.inputs:
            constant = None if taken is None else self._parameters.get(taken.tensor)
            if constant is not None:
                name = _renamed(constant.tensor.name, renamed)
                tensor = replace(constant.tensor, name=name, shape=None)
                self.constants[name] = replace(constant, tensor=tensor)
        body = self._bodies.get(first.name)
        if body is not None:
            name = _renamed(body.name, renamed)
            self.bodies.append(replace(body, name=name, owner=new, inputs=(), outputs=()))

    def graph(self) -> ModelGraph:
        """Golden's graph with the fused calls."""
        if not self.fused:
            return self.golden
        ops = (
            op
            for each in self.golden.ops
            if each.id in self.fused or each.id not in self.stands_for
            for op in self.fused.get(each.id, (each,))
        )
        kept = tuple(
            replace(
                op,
                inputs=tuple(map(self._input, op.inputs)),
                control_inputs=tuple(self.stands_for.get(name, name) for name in op.control_inputs),
            )
            for op in ops
        )
        return replace(
            self.golden,
            ops=kept,
            constants=(*self.golden.constants, *self.constants.values()),
            subgraphs=(*self.golden.subgraphs, *self.bodies),
        )

    def _input(self, ref: InputRef | None) -> InputRef | None:
        source = None if ref is None else ref.producer
        if ref is None or source is None or source.op not in self.stands_for:
            return ref
        return replace(ref, producer=TensorRef(self.stands_for[source.op], source.port))


def _renamed(name: str, names: Mapping[str, str]) -> str:
    """The *name* of a call, of its body or of a tensor of it, by its call's new name."""
    for before, after in names.items():
        if name == before or name.startswith((f"{before}.", f"{before} ")):
            return after + name[len(before) :]
    return name


def _side_by_side(
    layer: FusedLayer, refs: Sequence[DumpTensorRef | None], axis: int
) -> DumpTensorRef | None:
    """The rows of *layer* of what its parts have; None where one has none."""
    parts = []
    for rows in layer.rows:
        ref = refs[rows.layer]
        if ref is None or not ref.shape or ref.statistics is not None:
            return None
        place = axis % len(ref.shape)
        if rows.stop > ref.shape[place]:
            return None
        parts.append(_cut(ref, place, rows.start, rows.stop))
    first = parts[0]
    shapes = [part.shape for part in parts if part.shape is not None]
    if len(parts) == 1 or len({len(shape) for shape in shapes}) > 1:
        return first if len(parts) == 1 else None
    place = axis % len(shapes[0])
    shape = list(shapes[0])
    shape[place] = sum(each[place] for each in shapes)
    return replace(
        first,
        shape=tuple(shape),
        nbytes=sum(part.nbytes for part in parts),
        offset=0,
        crc32=None,
        derived=TensorJoin(tuple(parts), place),
    )


def _cut(whole: DumpTensorRef, axis: int, start: int, stop: int) -> DumpTensorRef:
    """Places *start* to *stop* of an axis."""
    assert whole.shape is not None
    length = whole.shape[axis]
    if (start, stop) == (0, length):
        return whole
    shape = (*whole.shape[:axis], stop - start, *whole.shape[axis + 1 :])
    cut = TensorCut(whole, ((axis, ((start, stop),)),))
    nbytes = whole.nbytes * (stop - start) // length
    return replace(whole, shape=shape, nbytes=nbytes, offset=0, crc32=None, derived=cut)
