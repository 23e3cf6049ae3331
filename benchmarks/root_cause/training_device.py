"""A device for TensorFlow training steps: the graph with rounding behind its ops.

Half precision (float16 or bfloat16) rounds most of what ops make, bodies of functions too;
single precision is off by what sums in another order are. What carries a fault is fed in place
of being computed, so all behind it follows.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from faults import Array

from divergraph.execute.installed import open_executor
from importers.registry import read_graph

UNITS = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": 2.0**-24}
_REDUCING = (
    *("MatMul", "Conv2D", "Depthwise", "FusedBatchNorm", "Softmax", "Sum", "Mean", "BiasAddGrad"),
    *("AvgPool", "SparseSoftmax", "L2Loss", "BatchMatMul", "UnsortedSegmentSum", "Einsum"),
)
_HANDS_ON = (
    *(
        "Enter",
        "Exit",
        "Merge",
        "Switch",
        "NextIteration",
        "Variable",
        "VarHandleOp",
        "Placeholder",
    ),
    *("Const", "TensorArray", "Stack", "While", "StatelessWhile", "Assign", "Apply", "Resource"),
    *("ScatterAdd", "SparseApply", "Ref", "Restore", "Random"),
)
_ROUNDED = 65
"""Per cent of the tensors that are rounded in half precision; fusion keeps the others."""


class TrainingDevice:
    """A device of a kind of ``UNITS`` for the step in *model*; *options* find its variables.

    Its own graph is written into *folder*.
    """

    def __init__(self, model: Path, kind: str, folder: Path, options: Mapping[str, str]) -> None:
        import tensorflow as tf

        self.kind = kind
        self._tf = tf
        self._half = {"fp16": tf.float16, "bf16": tf.bfloat16}.get(kind)
        self._options = options
        v1 = tf.compat.v1
        self._meta = v1.MetaGraphDef.FromString(model.read_bytes())
        plain = tf.Graph()
        with plain.as_default():
            v1.import_graph_def(self._meta.graph_def, name="")
        self._made: dict[str, str] = {}
        definition = self._meta.graph_def
        known = set(plain.get_operations())
        for op in known:
            for output in op.outputs:
                if self._changes(op, output):
                    self._made[output.name] = self._behind(definition, output)
        self._reroute(definition)
        for function in definition.library.function if self._half else ():
            self._round_body(function)
        self._file = folder / f"{kind}.meta"

    def run(
        self,
        feeds: Mapping[str, Array],
        names: Sequence[str],
        wrong: Mapping[str, Array],
        epsilon_of: str = "",
    ) -> dict[str, Array]:
        """Tensors *names* as the device has them, those in *wrong* as given there.

        *epsilon_of* is an op whose epsilon is a thousand times what it should be.
        """
        given = {**feeds, **{self._made.get(name, name): value for name, value in wrong.items()}}
        meta = type(self._meta)()
        meta.CopyFrom(self._meta)
        for node in meta.graph_def.node:
            if node.name == epsilon_of:
                node.attr["epsilon"].f *= 1000
        self._file.write_bytes(meta.SerializeToString())
        options = {**self._options, "feed": ",".join(given)}
        executor = open_executor(self._file, read_graph(self._file), options)
        there = set(executor.tensors) | set(given)
        wanted = {self._made.get(name, name): name for name in names}
        found = dict(wrong)
        asked = [each for each in wanted if each in there and each not in given]
        needed = {tensor.name for tensor in executor.inputs}
        run = executor.run({k: v for k, v in given.items() if k in needed}, asked)
        found.update((wanted[name], value) for name, value in run)
        executor.close()
        return {name: self.dumped(name, np.asarray(value)) for name, value in found.items()}

    def dumped(self, name: str, value: Array) -> Array:
        """*value* as the device would dump it."""
        if self._half is None or name not in self._made or not _is_rounded(name):
            return value
        with np.errstate(over="ignore"):
            found = value.astype(self._half.as_numpy_dtype)
        return found if self.kind == "fp16" else found.astype(np.float32)

    def _changes(self, op: Any, output: Any) -> bool:
        if output.dtype.name != "float32" or op.type.startswith(_HANDS_ON):
            return False
        if self.kind == "fp32":
            return bool(op.type.startswith(_REDUCING))
        return True

    def _behind(self, definition: Any, output: Any) -> str:
        """Nodes that make the device's value of *output*; the name of what comes out."""
        tf, name = self._tf, output.name.replace(":", "_")
        source, kind = output.name, tf.float32.as_datatype_enum
        if output.op.type.startswith(_REDUCING):
            source = self._noisy(definition, source, name, 1.5 * UNITS[self.kind])
        if self._half is not None and _is_rounded(output.name):
            source = f"{self._rounded(definition.node, name, source, '')}:0"
        if source == output.name:
            last = self._node(definition, "Identity", f"{name}_same", source)
            last.attr["T"].type = kind
            source = f"{last.name}:0"
        return str(source)

    def _rounded(self, nodes: Any, name: str, source: str, port: str) -> str:
        """Nodes that round *source*; the name of the last. *port* is how what they make is read."""
        assert self._half is not None
        wide, half = self._tf.float32.as_datatype_enum, self._half.as_datatype_enum
        for end, old, new in (("half", wide, half), ("back", half, wide)):
            node = nodes.add()
            node.op, node.name = "Cast", f"{name}_{end}_on_device"
            node.input.append(source)
            node.attr["SrcT"].type, node.attr["DstT"].type = old, new
            source = f"{node.name}{port}"
        return str(node.name)

    def _round_body(self, function: Any) -> None:
        """Let all ops of *function* read what others made rounded, and hand on such."""
        made: dict[str, str] = {}
        for node in list(function.node_def):
            definition = _op_def(node.op)
            outputs = [] if definition is None else definition.output_arg
            kinds = [
                node.attr[each.type_attr].type if each.type_attr else each.type for each in outputs
            ]
            plain = (
                len(outputs) == 1 and not outputs[0].number_attr and not outputs[0].type_list_attr
            )
            if not plain or kinds[0] != self._tf.float32.as_datatype_enum:
                continue
            if node.op.startswith(_HANDS_ON) or not _is_rounded(f"{node.name}:0"):
                continue
            name = f"{node.name}:{outputs[0].name}:0"
            made[name] = f"{self._rounded(function.node_def, node.name, name, ':y:0')}:y:0"
        for node in function.node_def:
            for at, each in enumerate(node.input):
                if each in made and not node.name.endswith("_on_device"):
                    node.input[at] = made[each]
        for name, each in function.ret.items():
            function.ret[name] = made.get(each, each)

    def _noisy(self, definition: Any, source: str, name: str, size: float) -> str:
        tf = self._tf
        kind, whole = tf.float32.as_datatype_enum, tf.int32.as_datatype_enum
        shape = self._node(definition, "Shape", f"{name}_shape", source)
        shape.attr["T"].type, shape.attr["out_type"].type = kind, whole
        numbers = np.array([7, zlib.crc32(name.encode()) >> 1], np.int32)
        seed = self._constant(definition, f"{name}_seed", numbers, name)
        drawn = self._node(definition, "StatelessRandomNormal", f"{name}_drawn", shape.name, seed)
        drawn.attr["dtype"].type, drawn.attr["T"].type = kind, whole
        drawn.attr["Tseed"].type = whole
        scale = self._constant(definition, f"{name}_size", np.float32(size), name)
        scaled = self._node(definition, "Mul", f"{name}_scaled", drawn.name, scale)
        scaled.attr["T"].type = kind
        off = self._node(definition, "Mul", f"{name}_off", source, scaled.name)
        off.attr["T"].type = kind
        noisy = self._node(definition, "Add", f"{name}_noisy", source, off.name)
        noisy.attr["T"].type = kind
        return f"{noisy.name}:0"

    def _constant(self, definition: Any, name: str, value: Any, _near: str) -> str:
        node = self._node(definition, "Const", name, f"^{_near.rpartition('_')[0]}")
        made = self._tf.make_tensor_proto(value)
        node.attr["dtype"].type = made.dtype
        node.attr["value"].tensor.CopyFrom(made)
        return str(node.name)

    def _node(self, definition: Any, kind: str, name: str, *inputs: str) -> Any:
        node = definition.node.add()
        node.op, node.name = kind, f"{name}_on_device"
        node.input.extend(inputs)
        return node

    def _reroute(self, definition: Any) -> None:
        """Let all ops read the device's values."""
        for node in definition.node:
            if node.name.endswith("_on_device"):
                continue
            for at, each in enumerate(node.input):
                full = each if ":" in each else f"{each}:0"
                if not each.startswith("^") and full in self._made:
                    node.input[at] = self._made[full]


def _is_rounded(name: str) -> bool:
    return zlib.crc32(f"rounded {name}".encode()) % 100 < _ROUNDED


def _op_def(kind: str) -> Any:
    """What TensorFlow knows of ops of a kind; None for names of functions."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(kind)
