"""Join the operators of a TFLite model, and of the sub-graphs they call, into a model graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import tflite

from graphstore.errors import ImportFormatError
from graphstore.model import (
    AttrValue,
    Constant,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Shape,
    Subgraph,
    Tensor,
    TensorOrigin,
    TensorRef,
)
from importers.kept import kept_list, kept_text, told_of
from importers.names import Bodies, Expansion, UniqueIds
from importers.tflite.checked import (
    Bounds,
    DamagedTableError,
    dtype_of,
    operator_name,
    options,
    text_of,
)

_ENTRY = "Input"
"""The type of the op that stands for an input of a called sub-graph."""
_OWN = ("tfl.", "arith.")
"""What names of the converter's own ops begin with."""
_BODIES = {
    "then_subgraph_index": 1,  # input 0 of an If is its condition
    "else_subgraph_index": 1,
    "cond_subgraph_index": 0,
    "body_subgraph_index": 0,
    "subgraph": 0,
    "init_subgraph_index": 0,
    "decomposition_subgraph_index": 0,
}
"""Options that name a sub-graph, and how many inputs of the operator come before its own."""
_WITHOUT_OUTPUT = frozenset({"cond_subgraph_index", "init_subgraph_index"})
_MAX_SCALES = 16


@dataclass(slots=True)
class _Called:
    """A sub-graph at one of its calls; the root has no owner."""

    index: int
    name: str = ""
    owner: str = ""
    role: str = ""
    before: int = 0
    takes: int = 0
    gives: int = 0
    chain: tuple[str, ...] = ()
    made: dict[int, TensorRef] = field(default_factory=dict)


class TfliteGraph:
    """The ops of the first sub-graph of a model, then those of what it calls, level by level."""

    def __init__(self, bounds: Bounds, model: tflite.Model) -> None:
        self._bounds = bounds
        self._model = model
        self._ids = UniqueIds()
        self._constant_ids = UniqueIds()
        self._calls = Expansion()
        self._known: dict[int, list[TensorInfo]] = {}
        self.ops: list[Op] = []
        self.inputs: list[Tensor] = []
        self.outputs: list[TensorRef] = []
        self.constants: list[Constant] = []
        self.subgraphs: list[Subgraph] = []
        count = model.SubgraphsLength()
        if not count:
            raise DamagedTableError("the model holds no sub-graph", 0)
        self._graphs = [bounds.inner(model.Subgraphs(number)) for number in range(count)]
        self._bodies = Bodies(_Called(0))
        for called in self._bodies:
            self._walk(called)

    def warnings(self) -> list[str]:
        """What was numbered or not followed, as lines for the user."""
        uncalled = [
            text_of(graph.Name()) or f"sub-graph {number}"
            for number, graph in enumerate(self._graphs)
            if number and str(number) not in self._calls.called
        ]
        return [
            *self._ids.warnings(),
            *self._calls.warnings(),
            *told_of(uncalled, "sub-graph{ is|s are} called by nothing"),
        ]

    @cached_property
    def _codes(self) -> list[str]:
        count = self._model.OperatorCodesLength()
        codes = (self._model.OperatorCodes(number) for number in range(count))
        return [operator_name(self._bounds.inner(code)) for code in codes]

    def _walk(self, called: _Called) -> None:
        graph, tensors = self._graphs[called.index], self._tensors(called.index)
        entries = self._indices(graph, "Inputs", len(tensors))
        values: dict[int, InputRef] = {}
        for number, place in enumerate(entries):
            values.setdefault(place, self._entry(called, tensors[place], number))
        for number in range(graph.OperatorsLength()):
            operator = self._bounds.inner(graph.Operators(number))
            self._op(called, operator, tensors, values)
        ends = self._indices(graph, "Outputs", len(tensors))
        fed = [values[place].producer if place in values else None for place in ends]
        if not called.name:
            self.outputs.extend(ref for ref in fed if ref is not None)
            return
        entered = [values[place].producer for place in entries]
        self.subgraphs.append(
            Subgraph(
                called.name,
                called.owner,
                called.role,
                tuple(
                    (number + called.before, ref.op)
                    for number, ref in enumerate(entered)
                    if ref is not None and number + called.before < called.takes
                ),
                tuple(
                    (port, ref)
                    for port, ref in enumerate(fed)
                    if ref is not None and port < called.gives
                ),
            )
        )

    def _entry(self, called: _Called, info: TensorInfo, number: int) -> InputRef:
        if not called.name:
            self.inputs.append(info.tensor)
            return InputRef(info.tensor.name)
        name = info.name or f"input_{number}"
        op = self._ids.take(name, called.name)
        self.ops.append(
            Op(
                op,
                name,
                _ENTRY,
                outputs=(info.tensor,),
                subgraph=called.name,
                sequence=len(self.ops),
            )
        )
        return InputRef(info.tensor.name, TensorRef(op, 0))

    def _op(
        self,
        called: _Called,
        operator: tflite.Operator,
        tensors: list[TensorInfo],
        values: dict[int, InputRef],
    ) -> None:
        code = operator.OpcodeIndex()
        if code >= len(self._codes):
            at = operator._tab.Pos
            raise DamagedTableError(f"an operator of code {code} of {len(self._codes)}", at)
        kind = self._codes[code]
        takes = self._indices(operator, "Inputs", len(tensors), optional=True)
        gives = self._indices(operator, "Outputs", len(tensors))
        attrs = options(self._bounds, operator)
        outputs = [tensors[place] for place in gives]
        # operators have no names; a constant may have the name of a part of this one
        name = (outputs[0].name if outputs else "") or f"{kind}_{len(self.ops)}"
        op = self._ids.take(name, called.name)
        inputs = tuple(self._value(place, tensors, values) for place in takes)
        owns = self._enter(called, op, attrs, len(takes), len(gives))
        for port, place in enumerate(gives):
            values[place] = InputRef(tensors[place].tensor.name, TensorRef(op, port))
        self.ops.append(
            Op(
                id=op,
                name=name,
                type=kind,
                inputs=inputs,
                outputs=tuple(_with_origin(info) for info in outputs),
                attrs=attrs | quantisation(outputs) | weights(takes, tensors, values),
                subgraph=called.name,
                owns=owns,
                original_names=_originals(outputs),
                sequence=len(self.ops),
            )
        )

    def _value(
        self, place: int, tensors: list[TensorInfo], values: dict[int, InputRef]
    ) -> InputRef | None:
        """What an operator takes; a tensor nobody makes is a constant."""
        if place < 0:
            return None
        if place not in values:
            values[place] = InputRef(self._constant(tensors[place]))
        return values[place]

    def _constant(self, info: TensorInfo) -> str:
        name = self._constant_ids.take(info.name or f"tensor_{len(self.constants)}")
        tensor = Tensor(name, info.tensor.dtype, info.tensor.shape)
        if info.buffer >= self._model.BuffersLength():
            raise DamagedTableError(f"{name!r} lies in buffer {info.buffer}, which is not there", 0)
        buffer = self._bounds.inner(self._model.Buffers(info.buffer))
        offset, nbytes = buffer.Offset(), buffer.Size()
        if offset <= 1:  # the values are in the buffer itself
            nbytes = buffer.DataLength()
            offset = 0
            if nbytes:
                table = buffer._tab
                offset = table.Vector(table.Offset(4))
        self._bounds.check(offset, 0)
        if offset + nbytes > self._bounds.size:
            raise DamagedTableError(f"the values of {name!r} reach past the end", offset)
        self.constants.append(Constant(tensor, "", offset, nbytes))
        return name

    def _enter(
        self, called: _Called, op: str, attrs: dict[str, AttrValue], takes: int, gives: int
    ) -> tuple[str, ...]:
        """Name the sub-graphs that *op* calls and have them walked later."""
        owns: list[str] = []
        for role, before in _BODIES.items():
            index = attrs.get(role)
            if not isinstance(index, int) or isinstance(index, bool):
                continue
            if not 0 <= index < len(self._graphs):
                raise DamagedTableError(f"{op!r} calls sub-graph {index}, which is not there", 0)
            if not self._calls.enters(
                str(index), self._graphs[index].OperatorsLength(), called.chain, op
            ):
                continue
            short = role.removesuffix("_index").removesuffix("_subgraph")
            gave = 0 if role in _WITHOUT_OUTPUT else gives
            chain = (*called.chain, str(index))
            body = partial(
                _Called,
                index,
                owner=op,
                role=short,
                before=before,
                takes=takes,
                gives=gave,
                chain=chain,
            )
            owns.append(self._bodies.enter(op, short, body))
        return tuple(owns)

    def _indices(
        self,
        table: tflite.SubGraph | tflite.Operator,
        name: str,
        count: int,
        *,
        optional: bool = False,
    ) -> list[int]:
        """Numbers of tensors in the list *name*; of inputs that are left out, -1."""
        if not getattr(table, name + "Length")():
            return []
        indices: list[int] = getattr(table, name + "AsNumpy")().tolist()
        lowest = -1 if optional else 0
        for place in indices:
            if not lowest <= place < count:
                what = f"tensor {place} is named, and there are {count}"
                raise DamagedTableError(what, table._tab.Pos)
        return indices

    def _tensors(self, index: int) -> list[TensorInfo]:
        if index not in self._known:
            self._known[index] = list(self._read_tensors(index))
        return self._known[index]

    def _read_tensors(self, index: int) -> Iterator[TensorInfo]:
        graph = self._graphs[index]
        for place in range(graph.TensorsLength()):
            tensor_table = self._bounds.inner(graph.Tensors(place))
            name = text_of(tensor_table.Name())
            dims = (
                tensor_table.ShapeSignature
                if tensor_table.ShapeSignatureLength()
                else tensor_table.Shape
            )
            count = tensor_table.ShapeSignatureLength() or tensor_table.ShapeLength()
            shape: Shape | None = tuple(
                dim if dim >= 0 else None for dim in (dims(axis) for axis in range(count))
            )
            if not count and not tensor_table.HasRank() and tensor_table.Type() in (13, 14):
                shape = None
            scales: tuple[AttrValue, ...] = ()
            zeros: tuple[AttrValue, ...] = ()
            axis = scale_count = 0
            quantised = tensor_table.Quantization()
            if quantised is not None:
                quantised = self._bounds.inner(quantised)
                axis, scale_count = quantised.QuantizedDimension(), quantised.ScaleLength()
                if 0 < quantised.ScaleLength() <= _MAX_SCALES:
                    scales = tuple(quantised.ScaleAsNumpy().tolist())
                if 0 < quantised.ZeroPointLength() <= _MAX_SCALES:
                    zeros = tuple(quantised.ZeroPointAsNumpy().tolist())
            tensor = Tensor(name or f"tensor_{place}", dtype_of(tensor_table.Type()), shape)
            yield TensorInfo(
                name, shape, tensor, tensor_table.Buffer(), scales, zeros, axis, scale_count
            )


def _originals(outputs: list[TensorInfo]) -> tuple[str, ...]:
    """The TensorFlow ops in an operator in the order they run; none if the converter added it."""
    names = dict.fromkeys(part for info in outputs for part in reversed(info.parts))
    return tuple(name for name in names if not name.startswith(_OWN))


def _with_origin(info: TensorInfo) -> Tensor:
    parts = info.parts
    if not parts or parts[0].startswith(_OWN):
        return info.tensor
    tensor = info.tensor
    return Tensor(tensor.name, tensor.dtype, tensor.shape, None, TensorOrigin(parts[0], 0))


def model_graph(bounds: Bounds, path: Path, sha256: str) -> ModelGraph:
    """The model graph of the file *path*, whose bytes are in *bounds*.

    Raises:
        DamagedTableError: an offset or a number leads to nothing.
    """
    model = bounds.root(tflite.Model)
    graph = TfliteGraph(bounds, model)
    attrs: dict[str, AttrValue] = {"version": model.Version()}
    if model.Description():
        attrs["description"] = kept_text(text_of(model.Description()))
    for number in range(model.SignatureDefsLength()):
        signature = bounds.inner(model.SignatureDefs(number))
        attrs[f"signature {text_of(signature.SignatureKey())}"] = kept_list(
            [
                f"{text_of(entry.Name())}={entry.TensorIndex()}"
                for count, get in (
                    (signature.InputsLength(), signature.Inputs),
                    (signature.OutputsLength(), signature.Outputs),
                )
                for entry in (bounds.inner(get(place)) for place in range(count))
            ]
        )
    if not graph.ops:
        raise ImportFormatError(path, "the model has no operators", offset=0)
    return ModelGraph(
        name=path.stem,
        kind=GraphKind.DEVICE,
        framework=Framework.TFLITE,
        format="tflite",
        ops=tuple(graph.ops),
        subgraphs=tuple(graph.subgraphs),
        inputs=tuple(graph.inputs),
        outputs=tuple(graph.outputs),
        constants=tuple(graph.constants),
        attrs=attrs,
        warnings=tuple(graph.warnings()),
        source=str(path),
        sha256=sha256,
    )


# Tensors of a TFLite model as the file describes them, and how they are quantised.


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a sub-graph as the file describes it."""

    name: str
    shape: Shape | None
    tensor: Tensor
    buffer: int
    scales: tuple[AttrValue, ...]
    zeros: tuple[AttrValue, ...]
    axis: int
    count: int
    """How many scales it has."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the TensorFlow ops that were fused into it, the last of them first."""
        return tuple(part for part in self.name.split(";") if part)


def quantisation(outputs: list[TensorInfo]) -> dict[str, AttrValue]:
    """Scale and zero point of quantised outputs; those past the first have their number behind."""
    attrs: dict[str, AttrValue] = {}
    for port, info in enumerate(outputs):
        if info.scales:
            end = f"_{port}" if port else ""
            attrs[f"scale{end}"] = kept_list(info.scales)
            attrs[f"zero_point{end}"] = kept_list(info.zeros)
            if len(info.scales) > 1:
                attrs[f"quantized_dimension{end}"] = info.axis
    return attrs


def weights(
    takes: list[int], tensors: list[TensorInfo], values: dict[int, InputRef]
) -> dict[str, AttrValue]:
    """How many scales quantised constants have, by the position where they are read, and the zero
    point of those with one. The scales are many and stay in the file."""
    attrs: dict[str, AttrValue] = {}
    for position, place in enumerate(takes):
        if place < 0 or values[place].producer is not None or not tensors[place].count:
            continue
        info = tensors[place]
        attrs[f"input_{position}_scales"] = info.count
        if len(info.zeros) == 1:
            attrs[f"input_{position}_zero_point"] = info.zeros[0]
    return attrs
