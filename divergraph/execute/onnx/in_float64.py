"""A model of single or half precision that computes in double precision.

Each floating-point tensor gets a twin of doubles, and each node is moved to the twins of what it
takes and makes. What ONNX Runtime computes in single precision alone is spelled out for windows
(``windows_in_float64.py``); of what is left the operands are rounded, as without all this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from divergraph.execute.contract import Array
from divergraph.execute.onnx.files import bodies, captured_names
from divergraph.execute.onnx.session import open_session, plain_options
from divergraph.execute.onnx.windows_in_float64 import spelled_out
from graphstore.errors import ExecutionError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

TWIN = "\nfloat64"
"""Behind the name of a tensor: the one of doubles."""
_FLOAT, _HALF, _DOUBLE, _BFLOAT16 = 1, 10, 11, 16  # onnx.proto, TensorProto.DataType
_REAL = frozenset((_FLOAT, _HALF, _BFLOAT16))


def in_float64(
    model: ModelProto, feeds: Mapping[str, Array]
) -> tuple[ModelProto, dict[str, Array], frozenset[str]]:
    """*model* so that it computes in double precision, what to feed it, and the op types it
    computes as before.

    Outputs keep their places; floating-point ones are doubles. Feeds may be doubles, too.
    """
    twins = _Twins(model, feeds)
    for node in model.graph.node:
        twins.add(node)
    fed = {name + TWIN if name in twins.fed_wide else name: value for name, value in feeds.items()}
    return twins.model(), fed, frozenset(twins.as_before)


class _Twins:
    def __init__(self, model: ModelProto, feeds: Mapping[str, Array]) -> None:
        self._model = model
        self._versions = {opset.domain: opset.version for opset in model.opset_import}
        self._types, self._shapes = _inferred(model)
        self._nodes: list[NodeProto] = []
        self._plain: set[str] = {tensor.name for tensor in model.graph.initializer}
        self._plain |= {tensor.values.name for tensor in model.graph.sparse_initializer}
        self._twins: set[str] = set()
        self.as_before: set[str] = set()
        self.fed_wide = {
            info.name
            for info in model.graph.input
            if self._is_real(info.name) and feeds[info.name].dtype == np.float64
        }
        for info in model.graph.input:
            (self._twins if info.name in self.fed_wide else self._plain).add(info.name)

    def add(self, node: NodeProto) -> None:
        """Take up *node*, moved to the twins where that can be."""
        if node.op_type == "Cast" and not node.domain and self._cast(node):
            return
        takes, makes = self._free(node)
        reads = [name for at, name in enumerate(node.input) if takes[at]]
        if not reads or any(True for _ in bodies(node)):
            if any(map(self._is_real, (*node.input, *captured_names(node)))):
                self.as_before.add(node.op_type)
            self._as_it_is(node)
            return
        moved = _copied(node)
        for at, name in enumerate(node.input):
            if takes[at]:
                moved.input[at] = name + TWIN
        for at, name in enumerate(node.output):
            if makes[at]:
                moved.output[at] = name + TWIN
        types = [
            _DOUBLE if takes[at] else self._types.get(name, 0) for at, name in enumerate(node.input)
        ]
        version = self._versions.get(node.domain, 1)
        if 0 not in [kind for kind, name in zip(types, node.input, strict=True) if name] and _runs(
            _shape_of(moved), tuple(types), version
        ):
            new = [moved]
        else:
            named = (node.input[0], node.input[1] if len(node.input) > 1 else "", node.output[0])
            image, filters, result = map(self._shapes.get, named)
            expanded = spelled_out(moved, image, filters, result) if all(takes[:2]) else None
            if expanded is None:
                self.as_before.add(node.op_type)
                self._as_it_is(node)
                return
            new = expanded
        for at, name in enumerate(node.input):
            if takes[at]:
                self._need_twin(name)
            elif name:
                self._need_plain(name)
        self._nodes += new
        for at, name in enumerate(node.output):
            if name:
                (self._twins if makes[at] else self._plain).add(name)

    def model(self) -> ModelProto:
        """The whole model."""
        from onnx import ModelProto, ValueInfoProto, helper

        doubled = ModelProto()
        doubled.ir_version = self._model.ir_version
        doubled.opset_import.extend(self._model.opset_import)
        doubled.functions.extend(self._model.functions)
        graph, old = doubled.graph, self._model.graph
        graph.name = old.name
        graph.initializer.extend(old.initializer)
        graph.sparse_initializer.extend(old.sparse_initializer)
        for info in old.input:
            if info.name in self.fed_wide:
                shape = self._shapes.get(info.name)
                twin = helper.make_tensor_value_info(info.name + TWIN, _DOUBLE, shape)
                graph.input.append(twin)
            else:
                graph.input.append(info)
        for info in old.output:
            name = info.name
            if name in self._twins:
                name += TWIN
            graph.output.append(ValueInfoProto(name=name))
        graph.node.extend(self._nodes)
        return doubled

    def _cast(self, node: NodeProto) -> bool:
        """Take up a cast to a floating-point type: of such a tensor it changes nothing here."""
        from onnx import helper

        if next(attribute.i for attribute in node.attribute if attribute.name == "to") not in _REAL:
            return False
        source, result = node.input[0], node.output[0]
        if self._is_real(source):
            self._need_twin(source)
            moved = helper.make_node("Identity", [source + TWIN], [result + TWIN])
        else:
            self._need_plain(source)
            moved = helper.make_node("Cast", [source], [result + TWIN], to=_DOUBLE)
        self._nodes.append(moved)
        self._twins.add(result)
        return True

    def _free(self, node: NodeProto) -> tuple[list[bool], list[bool]]:
        """Which inputs and outputs are real numbers of a type that the op leaves open."""
        from onnx import defs

        try:
            schema = defs.get_schema(node.op_type, self._versions.get(node.domain, 1), node.domain)
        except defs.SchemaError:
            return [False] * len(node.input), [False] * len(node.output)
        sides = []
        for names, params in ((node.input, schema.inputs), (node.output, schema.outputs)):
            declared = [params[min(at, len(params) - 1)].type_str for at in range(len(names))]
            sides.append(
                [
                    self._is_real(name) and not kind.startswith("tensor(")
                    for name, kind in zip(names, declared, strict=True)
                ]
            )
        return sides[0], sides[1]

    def _is_real(self, name: str) -> bool:
        return self._types.get(name) in _REAL

    def _as_it_is(self, node: NodeProto) -> None:
        for name in dict.fromkeys((*node.input, *sorted(captured_names(node)))):
            if name:
                self._need_plain(name)
        self._nodes.append(node)
        self._plain.update(name for name in node.output if name)

    def _need_twin(self, name: str) -> None:
        from onnx import helper

        if name not in self._twins:
            self._nodes.append(helper.make_node("Cast", [name], [name + TWIN], to=_DOUBLE))
            self._twins.add(name)

    def _need_plain(self, name: str) -> None:
        from onnx import helper

        if name not in self._plain and name in self._twins:
            kind = self._types[name]
            self._nodes.append(helper.make_node("Cast", [name + TWIN], [name], to=kind))
            self._plain.add(name)


def _inferred(model: ModelProto) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """The element types of tensors, and the shapes of those where all sizes follow."""
    from onnx import shape_inference
    from onnx.shape_inference import InferenceError

    try:
        graph: GraphProto = shape_inference.infer_shapes(model, data_prop=True).graph
    except (InferenceError, RuntimeError, ValueError) as error:
        raise ExecutionError(f"no float64 of this model: {' '.join(str(error).split())}") from error
    types: dict[str, int] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for info in (*graph.input, *graph.value_info, *graph.output):
        declared = info.type.tensor_type
        types[info.name] = declared.elem_type
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in declared.shape.dim]
        static = [size for size in sizes if size is not None]
        if declared.HasField("shape") and len(static) == len(sizes):
            shapes[info.name] = tuple(static)
    for tensor in model.graph.initializer:
        types[tensor.name], shapes[tensor.name] = tensor.data_type, tuple(tensor.dims)
    return types, shapes


def _copied(node: NodeProto) -> NodeProto:
    from onnx import NodeProto

    copy = NodeProto()
    copy.CopyFrom(node)
    return copy


def _shape_of(node: NodeProto) -> bytes:
    """What of a node says whether a kernel runs it: all but the names."""
    plain = _copied(node)
    plain.name = ""
    for at, name in enumerate(plain.input):
        plain.input[at] = f"i{at}" if name else ""
    for at, name in enumerate(plain.output):
        plain.output[at] = f"o{at}" if name else ""
    return plain.SerializeToString(deterministic=True)


@lru_cache(maxsize=2048)
def _runs(content: bytes, types: Sequence[int], version: int) -> bool:
    """Whether ONNX Runtime has a kernel for a node on inputs of these types."""
    from onnx import NodeProto, ValueInfoProto, helper

    node = NodeProto.FromString(content)
    if node.domain:
        return False
    inputs = [
        helper.make_tensor_value_info(name, kind, None)
        for name, kind in zip(node.input, types, strict=True)
        if name
    ]
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "one", inputs, outputs)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10
    )
    try:
        open_session(model, Path(), plain_options())
    except ExecutionError:
        return False
    return True
