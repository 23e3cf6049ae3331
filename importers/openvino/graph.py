"""Join the layers of an OpenVINO net, and of the bodies in it, into a model graph."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import (
    AttrValue,
    Constant,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Subgraph,
    Tensor,
    TensorRef,
)
from importers.kept import kept_text, told_of
from importers.names import Bodies, UniqueIds
from importers.openvino.runtime import (
    CONSTANTS,
    ResultNames,
    is_added,
    is_runtime,
    originals,
    runtime_attrs,
    sequence,
)
from importers.openvino.xml_reader import (
    HINT,
    BodyPort,
    IrLayer,
    IrNet,
    Port,
    Wire,
    dtype_of,
    names_in,
    nbytes_of,
    shape_of,
    value_of,
    whole_number,
)

_PARAMETERS = frozenset({"Parameter", "Input"})
_RESULTS = frozenset({"Result", "Output"})
_FACTS = 256


@dataclass(slots=True)
class _Body:
    """A net to walk: its name (empty: the root), its owner, and what its layers became."""

    net: IrNet
    name: str = ""
    owner: str = ""
    role: str = ""
    layer: IrLayer | None = None
    made: dict[tuple[int, int], TensorRef | str] = field(default_factory=dict)
    tensors: dict[tuple[int, int], str] = field(default_factory=dict)
    results: dict[int, TensorRef | str | None] = field(default_factory=dict)
    parameters: dict[int, str] = field(default_factory=dict)


class IrGraph:
    """The ops of *net* in the order they run, then those of its bodies, level by level."""

    def __init__(self, net: IrNet, path: Path) -> None:
        self._path = path
        self._weights = path.with_suffix(".bin")
        self._size = _size(self._weights)
        self._ids = UniqueIds()
        self._constant_ids = UniqueIds()
        self.is_runtime = is_runtime(net)
        self._unfed: list[str] = []
        self._valueless: list[str] = []
        self.ops: list[Op] = []
        self.inputs: list[Tensor] = []
        self.outputs: list[TensorRef] = []
        self.constants: list[Constant] = []
        self.subgraphs: list[Subgraph] = []
        self._bodies = Bodies(_Body(net))
        for body in self._bodies:
            self._walk(body)
            if body.name:
                self.subgraphs.append(self._subgraph(body))

    def warnings(self) -> list[str]:
        """What was numbered, not fed or not found, as lines for the user."""
        missing = f"of which {self._weights.name!r} holds the values, which is not there"
        return [
            *self._ids.warnings(),
            *told_of(self._unfed, "{input is|inputs are} fed by nothing"),
            *told_of(self._valueless, f"{{constant|constants}} {missing}"),
        ]

    def _walk(self, body: _Body) -> None:
        wiring = Wiring(body.net, self._path)
        results = [layer for layer in wiring.order if layer.type in _RESULTS]
        names = ResultNames.of(results, wiring.before)
        for layer in wiring.order:
            if layer.type in CONSTANTS:
                self._constant(body, layer)
            elif layer.type in _PARAMETERS and not body.name:
                self._input(body, layer)
            elif layer.type not in _RESULTS:
                self._op(body, layer, wiring, names)
        for layer in results:
            fed = wiring.before(layer)
            producer = None if fed is None else body.made.get((fed[0].id, fed[1]))
            body.results[layer.id] = producer
            if not body.name and isinstance(producer, TensorRef):
                self.outputs.append(producer)

    def _constant(self, body: _Body, layer: IrLayer) -> None:
        names = [name for port in layer.outputs for name in port.names[:1]]
        wanted = names[0] if names else layer.name or f"{layer.type}_{layer.id}"
        name = self._constant_ids.take(wanted, body.name)
        port = layer.outputs[0] if layer.outputs else None
        written = layer.data.get("shape")
        shape = port.dims if written is None and port else shape_of(written or "")
        dtype = dtype_of(layer.data.get("element_type", "") or (port.precision if port else ""))
        constant = Constant(Tensor(name, dtype, shape), nbytes=nbytes_of(dtype, shape))
        if "offset" in layer.data:
            constant = self._placed(layer, constant)
        self.constants.append(constant)
        for output in layer.outputs:
            body.made[layer.id, output.id] = name

    def _placed(self, layer: IrLayer, constant: Constant) -> Constant:
        """*constant* with the place of its values in the file of weights."""
        offset = whole_number(layer.data["offset"])
        size = whole_number(layer.data.get("size", ""))
        subject = f"the values of {layer.name!r}"
        what = ""
        if offset is None or size is None or offset < 0 or size < 0:
            what = f"{subject} have no place: an offset and a size in bytes"
        elif constant.nbytes is not None and size < constant.nbytes:
            what = f"{subject} take {constant.nbytes} bytes and have {size}"
        elif self._size is not None and offset + size > self._size:
            end = offset + size
            what = f"{subject} end at byte {end} of {self._weights.name}, which has {self._size}"
        if what or offset is None:
            raise ImportFormatError(self._path, what, line=layer.line, hint=HINT)
        if self._size is None and size:
            self._valueless.append(constant.tensor.name)
        return Constant(constant.tensor, self._weights.name, offset, size)

    def _input(self, body: _Body, layer: IrLayer) -> None:
        for place, port in enumerate(layer.outputs):
            tensor = self._tensor(layer, place)
            self.inputs.append(tensor)
            body.made[layer.id, port.id] = tensor.name

    def _op(self, body: _Body, layer: IrLayer, wiring: Wiring, names: ResultNames) -> None:
        name = layer.name or f"{layer.type}_{layer.id}"
        op = self._ids.take(name, body.name)
        if layer.type in _PARAMETERS:
            body.parameters[layer.id] = op
        for place, port in enumerate(layer.outputs):
            body.made[layer.id, port.id] = TensorRef(op, place)
        tensor = names.tensor if self.is_runtime else self._tensor
        made_of = self._original_names(layer, wiring)
        outputs = tuple(tensor(layer, at) for at in range(len(layer.outputs)))
        if made_of == ():
            outputs = tuple(replace(tensor, origin=None) for tensor in outputs)
        for port, output in zip(layer.outputs, outputs, strict=True):
            body.tensors[layer.id, port.id] = output.name
        place = len(self.ops)
        self.ops.append(
            Op(
                id=op,
                name=name,
                type=layer.type,
                inputs=tuple(self._inputs(body, layer, wiring, op)),
                outputs=outputs,
                attrs=runtime_attrs(layer) if self.is_runtime else _attrs(layer),
                subgraph=body.name,
                owns=tuple(
                    self._bodies.enter(
                        op, role, partial(_Body, net, owner=op, role=role, layer=layer)
                    )
                    for role, net in layer.bodies.items()
                ),
                original_names=made_of,
                sequence=sequence(layer, place) if self.is_runtime else place,
            )
        )

    def _original_names(self, layer: IrLayer, wiring: Wiring) -> tuple[str, ...] | None:
        if self.is_runtime:
            return () if is_added(layer, wiring.before) else originals(layer)
        return names_in(layer.notes.get("fused_names", "")) or None

    def _inputs(
        self, body: _Body, layer: IrLayer, wiring: Wiring, op: str
    ) -> list[InputRef | None]:
        refs: list[InputRef | None] = []
        for port in layer.inputs:
            source = wiring.source(layer, port)
            producer = None if source is None else body.made.get(source)
            if source is None or producer is None:
                self._unfed.append(f"{port.id} of {op}")
                refs.append(None)
            elif isinstance(producer, TensorRef):
                refs.append(InputRef(body.tensors[source], producer))
            else:
                refs.append(InputRef(producer))
        return refs

    def _tensor(self, layer: IrLayer, place: int) -> Tensor:
        port = layer.outputs[place]
        own = layer.name if len(layer.outputs) == 1 else f"{layer.name}.{place}"
        shape = port.dims
        if shape is None and "shape" in layer.data and layer.type in _PARAMETERS:
            shape = shape_of(layer.data["shape"])
        return Tensor(port.names[0] if port.names else own, dtype_of(port.precision), shape)

    def _subgraph(self, body: _Body) -> Subgraph:
        assert body.layer is not None
        layer = body.layer
        places = {port.id: place for place, port in enumerate(layer.inputs)}
        places |= {port.id: place for place, port in enumerate(layer.outputs)}
        inputs: list[tuple[int, str]] = []
        outputs: list[tuple[int, TensorRef]] = []
        for port in layer.ports.get(body.role, ()):
            if port.inner not in (body.parameters if port.is_input else body.results):
                self._missing(body, port, f"the layer {port.inner} of its body")
            if port.outer < 0:
                continue  # it counts the rounds, or says whether there is another
            if port.outer not in places:
                self._missing(body, port, f"the port {port.outer}")
            if port.is_input:
                inputs.append((places[port.outer], body.parameters[port.inner]))
            elif isinstance(fed := body.results[port.inner], TensorRef):
                outputs.append((places[port.outer], fed))
        return Subgraph(body.name, body.owner, body.role, tuple(inputs), tuple(outputs))

    def _missing(self, body: _Body, port: BodyPort, what: str) -> None:
        message = f"the ports of {body.owner!r} name {what}, which is not there"
        raise ImportFormatError(self._path, message, line=port.line, hint=HINT)


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size if file.is_file() else None
    except OSError:  # a name no file can have is as good as missing
        return None


def _attrs(layer: IrLayer) -> dict[str, AttrValue]:
    attrs = {name: value_of(text) for name, text in layer.data.items()}
    if layer.version:
        attrs.setdefault("opset", kept_text(layer.version))
    return attrs


def model_graph(net: IrNet, path: Path, sha256: str) -> ModelGraph:
    """The model graph of *net*, read from *path*; a runtime model is a device's graph.

    Raises:
        ImportFormatError: edges, bodies or places of values that cannot be.
    """
    graph = IrGraph(net, path)
    attrs: dict[str, AttrValue] = {"ir_version": net.version}
    for name, text in list(net.facts.items())[:_FACTS]:
        attrs.setdefault(name, kept_text(text))
    return ModelGraph(
        name=net.name or path.stem,
        kind=GraphKind.DEVICE if graph.is_runtime else GraphKind.ORIGINAL,
        framework=Framework.OPENVINO,
        format="openvino",
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


# Who feeds whom in a net: edges checked, layers in an order where inputs come first.


class Wiring:
    """The edges of *net*, read from *path*, by the input they end at.

    Raises:
        ImportFormatError: an edge names a layer or port that is not there, an input has two
            edges, or layers feed each other in a circle.
    """

    def __init__(self, net: IrNet, path: Path) -> None:
        self._path = path
        self._layers = net.layers
        self._feeding: dict[tuple[int, int], Wire] = {}
        inputs = {number: _places(layer.inputs) for number, layer in net.layers.items()}
        outputs = {number: _places(layer.outputs) for number, layer in net.layers.items()}
        for wire in net.wires:
            self._check(wire, wire.source, outputs, "output")
            self._check(wire, wire.target, inputs, "input")
            other = self._feeding.setdefault(wire.target, wire)
            if other is not wire:
                what = f"this input has an edge already, in line {other.line}"
                raise ImportFormatError(path, what, line=wire.line, hint=HINT)
        self.order = self._ordered()

    def source(self, layer: IrLayer, port: Port) -> tuple[int, int] | None:
        """The layer and port that feed input *port* of *layer*; None if none does."""
        wire = self._feeding.get((layer.id, port.id))
        return None if wire is None else wire.source

    def before(self, layer: IrLayer) -> tuple[IrLayer, int] | None:
        """The layer that feeds the first input of *layer*, and which port of it; None if none
        does."""
        source = self.source(layer, layer.inputs[0]) if layer.inputs else None
        return None if source is None else (self._layers[source[0]], source[1])

    def _check(
        self,
        wire: Wire,
        end: tuple[int, int],
        ports: Mapping[int, Mapping[int, int]],
        kind: str,
    ) -> None:
        layer, port = end
        if layer not in ports:
            what = f"the edge names the layer {layer}, which is not there"
        elif port not in ports[layer]:
            name = self._layers[layer].name
            what = f"the edge names the {kind} {port} of {name!r}, which is not there"
        else:
            return
        raise ImportFormatError(self._path, what, line=wire.line, hint=HINT)

    def _ordered(self) -> tuple[IrLayer, ...]:
        """The layers in file order but where one would come before what it takes."""
        places = {number: place for place, number in enumerate(self._layers)}
        users: dict[int, list[int]] = {}
        waiting = dict.fromkeys(self._layers, 0)
        for wire in self._feeding.values():
            users.setdefault(wire.source[0], []).append(wire.target[0])
            waiting[wire.target[0]] += 1
        ids = list(self._layers)
        ready = [places[number] for number, count in waiting.items() if not count]
        heapq.heapify(ready)
        ordered: list[IrLayer] = []
        while ready:
            number = ids[heapq.heappop(ready)]
            ordered.append(self._layers[number])
            for user in users.get(number, ()):
                waiting[user] -= 1
                if not waiting[user]:
                    heapq.heappush(ready, places[user])
        if len(ordered) < len(ids):
            cycle = [self._layers[number] for number in ids if waiting[number]]
            stuck = _in_circle(cycle, self._feeding.values())
            what = f"the layer {stuck.name!r} feeds itself through other layers"
            raise ImportFormatError(self._path, what, line=stuck.line, hint=HINT)
        return tuple(ordered)


def _places(ports: Iterable[Port]) -> dict[int, int]:
    return {port.id: place for place, port in enumerate(ports)}


def _in_circle(layers: list[IrLayer], wires: Iterable[Wire]) -> IrLayer:
    """One of *layers* that lies in a circle: going back from any of them ends in one."""
    by_id = {layer.id: layer for layer in layers}
    back = {wire.target[0]: wire.source[0] for wire in wires if wire.source[0] in by_id}
    at = layers[0].id
    seen: set[int] = set()
    while at not in seen:
        seen.add(at)
        at = back[at]
    return by_id[at]
