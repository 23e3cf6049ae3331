"""Lists of ops to keep in higher precision, in the forms compilers and converters take.

``--keep_dtype`` and ``--customize_dtypes`` are options of ATC, the Ascend compiler. Both take names
of ops in the original model, one per line, and warn that fusion may change them: so a fused op is
listed by all of its originals and by its own name. Source: the pages "--keep_dtype" and
"--customize_dtypes" of the ATC manual. The block list is what
``onnxconverter_common.float16.convert_float_to_float16(node_block_list=...)`` takes, the
``nodes_to_exclude`` of ONNX Runtime's quantisers and ``nncf.IgnoredScope(names=...)``. TensorRT's
``trtexec`` takes names of layers, which are those of ONNX nodes, in ``--layerPrecisions``; QNN's
converters take encodings of tensors in the JSON of ``--quantization_overrides``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from divergraph.blame.attribution import KeepListEntry
from divergraph.graphs.matching.constants import constant_ops
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import DType, ModelGraph, Op, TensorRef
from graphstore.traverse.reach import reached

_FP16_MOST = 65504.0
_ENDS_NAME = re.compile(r"[,\s]")
_FLOATS = frozenset((None, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32))


def keep_dtype_lines(data: RunData, entries: Sequence[KeepListEntry]) -> list[str]:
    """The lines of a ``--keep_dtype`` file."""
    return [op.name for op in _both_sides(data, entries)]


def customize_dtypes_lines(data: RunData, entries: Sequence[KeepListEntry]) -> list[str]:
    """The lines of a ``--customize_dtypes`` file: all float inputs and outputs float32."""
    golden, device = _types(data.golden), _types(data.device)
    lines = []
    for op in _both_sides(data, entries):
        dtypes = device if data.device.op_index().get(op.id) is op else golden
        inputs = [dtypes.get(ref.tensor) for ref in op.inputs if ref is not None]
        outputs = [tensor.dtype for tensor in op.outputs]
        lines.append(f"{op.name}::InputDtype:{_listed(inputs)},OutputDtype:{_listed(outputs)}")
    return lines


def block_list_lines(data: RunData, entries: Sequence[KeepListEntry]) -> list[str]:
    """The names of the golden nodes, one per line."""
    return list(dict.fromkeys(op.name for op in _originals(data, entries)))


def layer_precisions_lines(data: RunData, entries: Sequence[KeepListEntry]) -> list[str]:
    """The options of ``trtexec`` that hold the golden nodes and their outputs to float32.

    Raises:
        InputError: a node's name holds what ends a name there.
    """
    names = block_list_lines(data, entries)
    for name in names:
        if _ENDS_NAME.search(name):
            what = f"the node {name!r} cannot be named to trtexec"
            raise InputError(what, hint="rename it: a comma or blank ends a name there")
    layers = ",".join(f"{name}:fp32" for name in names)
    options = [f"--layerPrecisions={layers}", f"--layerOutputTypes={layers}"]
    return ["--precisionConstraints=obey", *options] if names else []


def quantization_overrides_lines(data: RunData, entries: Sequence[KeepListEntry]) -> list[str]:
    """The JSON of QNN's ``--quantization_overrides`` in which the golden nodes' outputs and the
    constants they read stay float16, the widest float that all of its devices compute."""
    ops = list(_originals(data, entries))
    constants = {constant.tensor.name for constant in data.golden.constants}
    reads = {ref.tensor for op in ops for ref in op.inputs if ref is not None}
    as_float = [{"bitwidth": 16, "dtype": "float"}]
    content = {
        "activation_encodings": {out.name: as_float for op in ops for out in op.outputs},
        "param_encodings": dict.fromkeys(sorted(reads & constants), as_float),
    }
    return json.dumps(content, indent=2).split("\n")


LINES: Mapping[str, Callable[[RunData, Sequence[KeepListEntry]], list[str]]] = {
    "keep_dtype": keep_dtype_lines,
    "customize_dtypes": customize_dtypes_lines,
    "block_list": block_list_lines,
    "layer_precisions": layer_precisions_lines,
    "quantization_overrides": quantization_overrides_lines,
}
"""What writes each form; ``divergraph.api.keep_forms`` says what it is for."""


def constants_read(data: RunData, entries: Sequence[KeepListEntry]) -> list[str]:
    """The Constant nodes that blocked nodes read, by name. Converters turn them into float16 all
    the same, even if they are blocked themselves. Only initializers that nothing but blocked nodes
    reads stay in float32."""
    golden = data.golden.op_index()
    read = (
        golden[ref.producer.op]
        for op in _originals(data, entries)
        for ref in op.inputs
        if ref is not None and ref.producer is not None and ref.producer.op in golden
    )
    return list(dict.fromkeys(op.name for op in read if op.type == "Constant"))


def _both_sides(data: RunData, entries: Sequence[KeepListEntry]) -> Iterator[Op]:
    """The originals of each op, then the device op if its name differs."""
    device = data.device.op_index()
    seen: set[str] = set()
    for entry in entries:
        computing = _computed(data.device, _computing(data, entry))
        for op in (*_originals(data, [entry]), *(device[op_id] for op_id in computing)):
            if op.name not in seen:
                seen.add(op.name)
                yield op


def _originals(data: RunData, entries: Iterable[KeepListEntry]) -> Iterator[Op]:
    golden = data.golden.op_index()
    too_large = _too_large(data)
    for entry in entries:
        # All of a group: the dumps do not show which of its ops errs.
        names = entry.group or _linked(data, _computing(data, entry))
        computed = _computed(data.golden, [op_id for op_id in names if op_id in golden])
        yield from (golden[op_id] for op_id in computed)
        yield from _taking(data.golden, computed, too_large)


def _computed(graph: ModelGraph, ops: Sequence[str]) -> list[str]:
    """*ops*, with those that only make constants replaced by their readers: compilers hold a
    constant in the type in which it is read."""
    constants, readers = constant_ops(graph), _readers(graph)
    consumers = reached(ops, lambda op: readers.get(op, ()) if op in constants else ())
    return [op for op in consumers if op not in constants]


def _readers(graph: ModelGraph) -> dict[str, list[str]]:
    """By op the ops that read its outputs."""
    readers: dict[str, list[str]] = {}
    for op in graph.ops:
        for ref in op.inputs:
            if ref is not None and ref.producer is not None:
                readers.setdefault(ref.producer.op, []).append(op.id)
    return readers


def _too_large(data: RunData) -> set[TensorRef]:
    """The golden tensors that exceed float16 although the device holds them in it."""
    return {
        item.golden
        for item in data.comparisons
        if item.golden is not None
        and item.device_dtype is DType.FLOAT16
        and item.figures is not None
        and max(abs(item.figures.golden.low), abs(item.figures.golden.high)) > _FP16_MOST
    }


def _taking(graph: ModelGraph, ops: Iterable[str], too_large: set[TensorRef]) -> Iterator[Op]:
    """The ops that read values of *ops* too large for float16, and their readers in turn. After an
    op that is kept, compilers cast back to float16 unless the next op is kept, too."""
    takers: dict[str, list[str]] = {}
    for op in graph.ops:
        for ref in op.inputs:
            if ref is not None and ref.producer in too_large and ref.producer is not None:
                takers.setdefault(ref.producer.op, []).append(op.id)
    dropped, index = dict.fromkeys(ops), graph.op_index()
    takers_reached = reached(dropped, lambda op: takers.get(op, ()))
    return (index[op] for op in takers_reached if op not in dropped)


def _linked(data: RunData, ops: Sequence[str]) -> list[str]:
    chosen = set(ops)
    return list(dict.fromkeys(link.original for link in data.links if link.device in chosen))


def _computing(data: RunData, entry: KeepListEntry) -> list[str]:
    """The device op; for one the compiler added (a Quant, a Cast) the ops that read its result."""
    linked = {link.device for link in data.links}
    if entry.op in linked or entry.group:
        return [entry.op]
    readers = _readers(data.device)
    readers_reached = reached([entry.op], lambda op: () if op in linked else readers.get(op, ()))
    return [op for op in readers_reached if op in linked] or [entry.op]


def _types(graph: ModelGraph) -> dict[str, DType | None]:
    dtypes = {tensor.name: tensor.dtype for op in graph.ops for tensor in op.outputs}
    dtypes.update({tensor.name: tensor.dtype for tensor in graph.inputs})
    dtypes.update({constant.tensor.name: constant.tensor.dtype for constant in graph.constants})
    return dtypes


def _listed(types: Iterable[DType | None]) -> str:
    """The type of each tensor: float32 for floats and unknown types, integers as they are."""
    return ",".join("float32" if dtype in _FLOATS else str(dtype) for dtype in types)
