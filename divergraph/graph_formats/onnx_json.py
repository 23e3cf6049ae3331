"""Any model graph as the JSON form of an ONNX ``ModelProto``.

Field names and encodings are those of protobuf's JSON mapping of onnx.proto (camelCase,
64-bit integers and bytes as text, bytes in base64), so ``onnx.load(path, format="json")``
reads it, and Netron shows it. What ONNX lacks is told as GE's own ONNX text tells it:
a control input is ``<op>:-1``, an Ascend op's type is ``ge:<type>``. Weights stay where
they are.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from typing import Any

from divergraph.version import __version__
from graphstore.model import AttrValue, Framework, ModelGraph, Op, Tensor
from graphstore.traverse.topological_order import topo_order
from importers.onnx_model.values import DTYPES

_IR_VERSION = 8
_TYPES = {dtype: number for number, dtype in DTYPES.items()}
_ORIGINALS = "_datadump_original_op_names"


def onnx_document(graph: ModelGraph) -> dict[str, Any]:
    """The document for *graph*."""
    return {
        "irVersion": str(_IR_VERSION),
        "producerName": "divergraph",
        "producerVersion": __version__,
        "opsetImport": [{"domain": domain, "version": "1"} for domain in _domains(graph)],
        "graph": _Graphs(graph).root(),
        "metadataProps": [
            {"key": "framework", "value": graph.framework.value},
            {"key": "format", "value": graph.format},
            *({"key": key, "value": str(value)} for key, value in graph.attrs.items()),
        ],
    }


def _domains(graph: ModelGraph) -> list[str]:
    return [""] if graph.framework is Framework.ONNX else ["", graph.framework.value]


class _Graphs:
    def __init__(self, graph: ModelGraph) -> None:
        self._graph = graph
        self._ops = graph.op_index()
        self._bodies = {body.name: body for body in graph.subgraphs}
        self._members: dict[str, list[Op]] = {}
        for op_id in topo_order(graph):  # as ONNX asks for; a GraphDef may have any order
            op = self._ops[op_id]
            self._members.setdefault(op.subgraph, []).append(op)

    def root(self) -> dict[str, Any]:
        graph = self._graph
        produced = {op.outputs[0].name for op in graph.ops if op.outputs}
        ends = [self._tensor(ref.op, ref.port) for ref in graph.outputs]
        content: dict[str, Any] = {
            "name": graph.name,
            "node": [self._node(op) for op in self._members.get("", ())],
            "input": [_value_info(tensor) for tensor in graph.inputs if tensor.name not in produced]
            + [_value_info(constant.tensor) for constant in graph.constants],
            "output": [_value_info(end) for end in ends if end is not None],
            "valueInfo": [
                _value_info(tensor) for op in self._members.get("", ()) for tensor in op.outputs
            ],
        }
        orphans = [self._body(b.name) for b in graph.subgraphs if b.owner not in self._ops]
        if orphans:
            holder = {"name": "bodies", "graphs": orphans, "type": "GRAPHS"}
            content["node"].append({"name": "unowned", "opType": "", "attribute": [holder]})
        return content

    def _body(self, name: str) -> dict[str, Any]:
        body = self._bodies[name]
        ends = [self._tensor(ref.op, ref.port) for _, ref in body.outputs]
        return {
            "name": name,
            "node": [self._node(op) for op in self._members.get(name, ())],
            "output": [_value_info(end) for end in ends if end is not None],
            "valueInfo": [
                _value_info(tensor) for op in self._members.get(name, ()) for tensor in op.outputs
            ],
        }

    def _tensor(self, op: str, port: int) -> Tensor | None:
        producer = self._ops.get(op)
        if producer is None or not 0 <= port < len(producer.outputs):
            return None
        return producer.outputs[port]

    def _node(self, op: Op) -> dict[str, Any]:
        inputs = ["" if ref is None else ref.tensor for ref in op.inputs]
        names = [self._ops[source].name for source in op.control_inputs if source in self._ops]
        attributes = [_attribute(name, value) for name, value in op.attrs.items() if name]
        if op.original_names is not None and _ORIGINALS not in op.attrs:
            attributes.append(_attribute(_ORIGINALS, op.original_names))
        keys = {attribute["name"] for attribute in attributes}
        for number, name in enumerate(op.owns):
            if name in self._bodies and self._bodies[name].owner == op.id:
                key = self._bodies[name].role or f"body_{number}"
                while key in keys:
                    key += "_"
                keys.add(key)
                attributes.append({"name": key, "g": self._body(name), "type": "GRAPH"})
        is_ascend = self._graph.framework is Framework.ASCEND
        node: dict[str, Any] = {
            "name": op.name,
            "opType": f"ge:{op.type}" if is_ascend else op.type,
            "input": [*inputs, *(f"{name}:-1" for name in names)],
            "output": [tensor.name for tensor in op.outputs],
            "attribute": attributes,
        }
        if self._graph.framework is not Framework.ONNX:
            node["domain"] = self._graph.framework.value
        return node


def _value_info(tensor: Tensor) -> dict[str, Any]:
    described: dict[str, Any] = {"elemType": _TYPES.get(tensor.dtype, 0) if tensor.dtype else 0}
    if tensor.shape is not None:
        described["shape"] = {
            "dim": [{} if dim is None else {"dimValue": str(dim)} for dim in tensor.shape]
        }
    return {"name": tensor.name, "type": {"tensorType": described}}


def _attribute(name: str, value: AttrValue) -> dict[str, Any]:
    if isinstance(value, bool | int) and -(1 << 63) <= value < 1 << 63:
        return {"name": name, "i": str(int(value)), "type": "INT"}
    if isinstance(value, float):
        return {"name": name, "f": _float(value), "type": "FLOAT"}
    if not isinstance(value, tuple):
        return {"name": name, "s": _base64(str(value)), "type": "STRING"}
    if value and all(isinstance(item, bool | int) for item in value):
        return {"name": name, "ints": [str(int(i)) for i in _ints(value)], "type": "INTS"}
    if value and all(isinstance(item, float) for item in value):
        return {"name": name, "floats": [_float(f) for f in value], "type": "FLOATS"}
    texts = [_base64(item if isinstance(item, str) else str(item)) for item in value]
    return {"name": name, "strings": texts, "type": "STRINGS"}


def _ints(values: Iterable[AttrValue]) -> Iterable[int]:
    return (value for value in values if isinstance(value, bool | int))


def _float(value: AttrValue) -> float | str:
    """A float32 in JSON: protobuf writes NaN and infinities as words."""
    number = float(value) if isinstance(value, int | float) else 0.0
    if math.isnan(number):
        return "NaN"
    if math.isinf(number) or abs(number) > 3.4028234663852886e38:
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "backslashreplace")).decode("ascii")
