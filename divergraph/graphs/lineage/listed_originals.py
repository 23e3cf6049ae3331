"""The originals that a device's graph lists for its ops by name, found in the golden graph.

Converters make the names of an op from the original's. OpenVINO puts something behind them where an
op is a part of the original, or the original in another number type; TFLite a number where a
constant has the name already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from divergraph.graphs.lineage.golden_tensors import Counterpart, GoldenTensors, Unmatched
from divergraph.graphs.lineage.split_originals import HANDING_ON
from graphstore.model import Framework, LineageRule, Op, Reason, TensorMatch, TensorRef

_PART = re.compile(r"/WithoutBiases$")
_AGAIN = re.compile(r"_\d{1,2}$")
"""What tells two ops apart that OpenVINO would give one name: parts of one original, too."""
_IN_FRONT = re.compile(r"/transpose_[ab]$")
_PORT = re.compile(r"\.(\d{1,5})$")
"""An output of an op whose whole numbers were made narrower, by its number; also twice."""
_MOST_DIGITS = 5
_NUMBERED_PART = re.compile(r"__\d+")

_PRODUCTS = frozenset(
    {
        *("Conv", "Conv2D", "Conv2DBackpropInput", "Conv3D", "ConvTranspose", "Gemm", "MatMul"),
        *("BatchMatMul", "BatchMatMulV2", "DepthwiseConv2dNative"),
    }
)
_ADDITIONS = frozenset({"BiasAdd", "Add", "AddV2"})
_CONSTANTS = frozenset({"Const", "Constant", "ReadVariableOp", "VariableV2", "VarHandleOp"})
_ACTIVATIONS: Mapping[str, frozenset[str]] = {
    "RELU": frozenset({"Relu"}),
    "RELU6": frozenset({"Relu6", "Clip"}),
    "RELU_N1_TO_1": frozenset({"Clip", "ClipByValue", "Minimum"}),
    "TANH": frozenset({"Tanh"}),
}


class ListedOriginals:
    """Looks up what the ops of a graph of *framework* list in the *golden* graph."""

    def __init__(self, golden: GoldenTensors, framework: Framework) -> None:
        self._golden = golden
        self._ops = golden.graph.op_index()
        self._readers = golden.graph.readers()
        self._is_tflite = framework is Framework.TFLITE

    def of(self, op: Op) -> tuple[str, ...]:
        """The ids of the golden ops that *op* lists, by their own names or their tensors'."""
        refs = (
            self._named(_PART.sub("", name), 0) or self._named(_AGAIN.sub("", name), 0)
            for name in op.original_names or ()
        )
        return tuple(dict.fromkeys(ref.op for ref in refs if ref is not None))

    def counterpart(self, op: Op, ref: TensorRef) -> Counterpart | None:
        """The golden tensor that the origin of output *ref* names, or that it is only a part of
        one. None if the golden graph knows no such name."""
        origin = op.outputs[ref.port].origin
        if origin is None:
            return None
        if self._is_tflite:
            return self._converted(op, ref)
        golden_ref = self._named(origin.op, origin.port)
        if golden_ref is not None:
            return TensorMatch(ref, golden_ref, LineageRule.ORIGIN_OUTPUT)
        base_name = _PART.sub("", origin.op)
        if base_name != origin.op and self._named(base_name, 0) is not None:
            return Unmatched(Reason.INNER_OF_SPLIT, f"a part of {base_name}: without its bias")
        front_name = _IN_FRONT.sub("", origin.op)
        if front_name != origin.op and self._named(front_name, 0) is not None:
            return Unmatched(
                Reason.INSERTED, f"{op.type} added in front of {front_name}, no original"
            )
        return None

    def _named(self, name: str, port: int) -> TensorRef | None:
        """Output *port* of the golden op called *name*, or the golden tensor called so."""
        if self._is_tflite:
            found = self._numbered(name)
            return None if found is None else TensorRef(found.id, port)
        for _ in range(3):
            op = self._golden.by_name.get(name)
            if op is not None and port < max(1, len(op.outputs)):
                return TensorRef(op.id, port)
            if port == 0 and (tensor := self._golden.by_tensor_name.get(name)) is not None:
                return tensor
            numbered = _PORT.search(name)
            if numbered is None or port:
                return None
            name, port = name[: numbered.start()], int(numbered[1])
        return None

    def _numbered(self, name: str) -> Op | None:
        """The golden op called *name*, or of the tensor called so, but for a number at its end."""
        for _ in range(_MOST_DIGITS):
            tensors = self._golden.by_tensor_name
            tensor = tensors.get(name) or tensors.get(f"{name}:0")
            op = self._golden.by_name.get(name)
            if op is None and tensor is not None:
                op = self._ops[tensor.op]
            if op is not None or not name[-1:].isdecimal():
                return op
            name = name[:-1]
        return None

    @cached_property
    def _depths(self) -> Mapping[str, int]:
        """How many ops lie before each golden op, at most; loops are left out."""
        waiting = {op.id: len({ref.op for ref in op.takes}) for op in self._golden.graph.ops}
        users: dict[str, set[str]] = {}
        for ref, readers in self._readers.items():
            users.setdefault(ref.op, set()).update(op.id for op in readers)
        ready = [op for op, count in waiting.items() if not count]
        depths = dict.fromkeys(ready, 0)
        for op in ready:
            for user in users.get(op, ()):
                depths[user] = max(depths.get(user, 0), depths[op] + 1)
                waiting[user] -= 1
                if not waiting[user]:
                    ready.append(user)
        return depths

    def _converted(self, op: Op, ref: TensorRef) -> Counterpart | None:
        """The golden tensor of an output of a TFLite op: that of the last of the ops in its name.
        All of them may be in front of a bias; the op's own inputs and options tell what it does
        behind them."""
        ops = [self._numbered(part) for part in op.outputs[ref.port].name.split(";")]
        ops_numbered = [op_numbered for op_numbered in ops if op_numbered is not None]
        if not ops_numbered:
            return None
        named = max(ops_numbered, key=lambda candidate: self._depths.get(candidate.id, 0))
        if len(named.outputs) not in (1, len(op.outputs)):
            return None  # loops have their values in an order of their own
        named = last = self._last_part(named)
        if named.type in _PRODUCTS and len(op.inputs) > 2 and op.inputs[2] is not None:
            last = self._next(last, _ADDITIONS) or last
        activation = _ACTIVATIONS.get(str(op.attrs.get("fused_activation_function")), frozenset())
        if last.type not in activation:
            last = self._next(last, activation) or last
        rule = LineageRule.ORIGIN_OUTPUT if last is named else LineageRule.BETWEEN_TENSORS
        return TensorMatch(ref, TensorRef(last.id, ref.port if len(last.outputs) > 1 else 0), rule)

    def _last_part(self, op: Op) -> Op:
        """The last of the ops that tf2onnx made of one: the first has its name, the others a
        number behind it (``Rsqrt`` is Sqrt and Reciprocal, ``Rsqrt__7``)."""
        while True:
            readers = {reader.id: reader for reader in self._readers.get(TensorRef(op.id, 0), [])}
            part = next(iter(readers.values()), None) if len(readers) == 1 else None
            if part is None or part.type in HANDING_ON or not _is_part(op.name, part.name):
                return op
            op = part

    def _next(self, op: Op, types: frozenset[str]) -> Op | None:
        """The only reader of the output of *op*, if it is of one of *types*; what is added to the
        output has to be a constant."""
        readers = self._readers.get(TensorRef(op.id, 0), [])
        if len(readers) != 1 or readers[0].type not in types:
            return None
        fed = {tensor.name for tensor in self._golden.graph.inputs}
        for op_input in readers[0].inputs:
            if op_input is None or (
                op_input.producer is not None and op_input.producer.op == op.id
            ):
                continue
            source = None if op_input.producer is None else self._ops[op_input.producer.op]
            while source is not None and source.type == "Identity" and source.takes:
                source = self._ops[source.takes[0].op]
            if op_input.tensor in fed or (source is not None and source.type not in _CONSTANTS):
                return None
        return readers[0]


def _is_part(name: str, part: str) -> bool:
    number = part.removeprefix(name.partition("__")[0])
    return number != part and _NUMBERED_PART.fullmatch(number) is not None
