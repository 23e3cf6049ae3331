"""NaN, infinities and saturated values behind a fault: is the fault alone named?

    python benchmarks/root_cause/consequences.py [--only NAME] [--show]

A net in half precision in which one op gives NaN, infinities or far too large numbers, all of them
or some; behind it the device goes on as devices do: it keeps infinities, or makes them the largest
number and NaN 0, compares NaN as it likes, and overflows inside of norms and sums of squares.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.contract import RunData

Array = np.ndarray
SHAPE = (2, 6, 16)
LARGEST = np.float32(65504)


def net() -> onnx.ModelProto:
    """A block with a norm, attention, gates and reductions behind the op ``fault``."""
    rng = np.random.default_rng(5)

    def weight(*shape: int) -> Array:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    weights = {
        "w": weight(16, 16),
        "wq": weight(16, 16),
        "wk": weight(16, 16),
        "wv": weight(16, 16),
        "w1": weight(16, 32),
        "w2": weight(32, 16),
        "g": np.ones(16, np.float32),
        "b": weight(16),
        "two": np.array(2, np.float32),
        "eps": np.array(1e-5, np.float32),
        "low": np.array(-4, np.float32),
        "high": np.array(4, np.float32),
    }
    steps = [
        ("before", "MatMul", "x w", {}),
        ("fault", "Add", "before b", {}),
        ("norm", "LayerNormalization", "fault g b", {"axis": -1}),
        ("q", "MatMul", "norm wq", {}),
        ("k", "MatMul", "fault wk", {}),
        ("v", "MatMul", "fault wv", {}),
        ("kt", "Transpose", "k", {"perm": [0, 2, 1]}),
        ("scores", "MatMul", "q kt", {}),
        ("attention", "Softmax", "scores", {"axis": -1}),
        ("mixed", "MatMul", "attention v", {}),
        ("residual", "Add", "mixed fault", {}),
        ("squares", "Pow", "residual two", {}),
        ("mean", "ReduceMean", "squares", {"axes": [-1]}),
        ("steady", "Add", "mean eps", {}),
        ("root", "Sqrt", "steady", {}),
        ("rms", "Div", "residual root", {}),
        ("up", "MatMul", "rms w1", {}),
        ("gate", "Sigmoid", "up", {}),
        ("gated", "Mul", "up gate", {}),
        ("relu", "Relu", "gated", {}),
        ("down", "MatMul", "relu w2", {}),
        ("sum", "Add", "down residual", {}),
        ("clipped", "Clip", "sum low high", {}),
        ("largest", "ReduceMax", "sum", {"axes": [-1]}),
        ("exp", "Exp", "clipped", {}),
        ("y", "Mul", "exp largest", {}),
    ]
    nodes = [
        helper.make_node(kind, inputs.split(), [name], name=name, **attrs)
        for name, kind, inputs, attrs in steps
    ]
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(SHAPE))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def ieee(value: Array) -> Array:
    return value.astype(np.float16)


def saturating(value: Array) -> Array:
    return np.nan_to_num(value, nan=0.0, posinf=LARGEST, neginf=-LARGEST).clip(-LARGEST, LARGEST)


def finite_nan(value: Array) -> Array:
    """Infinities become NaN, as 0 times them does on the way."""
    value = value.astype(np.float16)
    return np.where(np.isinf(value), np.float16(np.nan), value)


DEVICES: Mapping[str, Callable[[Array], Array]] = {
    "ieee": ieee,
    "saturating": saturating,
    "nan for infinity": finite_nan,
}

_SQUARES = {"LayerNormalization", "ReduceMean"}


def ran(
    model: onnx.ModelProto, x: Array, fault: Callable[[Array], Array], device: str, where: str
) -> dict[str, Array]:
    """Every tensor of *model* on a device on which op *where* is at fault."""
    rounded = DEVICES[device]
    values = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    known = set(values)
    values["x"] = x
    with np.errstate(all="ignore"):
        for node in model.graph.node:
            piece = helper.make_graph(
                [node],
                "op",
                [onnx.ValueInfoProto(name=name) for name in node.input],
                [onnx.ValueInfoProto(name=name) for name in node.output],
            )
            alone = helper.make_model(piece, opset_imports=model.opset_import, ir_version=8)
            fed = {name: np.asarray(values[name], np.float32) for name in node.input}
            (made,) = ReferenceEvaluator(alone).run(None, fed)
            first = fed[node.input[0]]
            if node.op_type == "LayerNormalization":
                # Squares overflow in half precision: the root is infinite, what it divides 0.
                over = (np.square(first - first.mean(-1, keepdims=True)) > LARGEST).any(-1)
                made = np.where(over[..., None] & np.isfinite(first), values["b"], made)
            if node.op_type in ("Relu", "Clip", "ReduceMax") and device != "ieee":
                made = np.nan_to_num(made, nan=0.0)
            if node.op_type == "Softmax" and device == "saturating":
                made = np.nan_to_num(made, nan=1.0 / made.shape[-1])
            made = rounded(np.asarray(made, np.float32))
            if node.name == where:
                made = rounded(fault(np.asarray(made, np.float32)))
            values[node.output[0]] = np.asarray(made, np.float16)
    return {name: value for name, value in values.items() if name not in known}


def _one(value: Array) -> Array:
    value = value.copy()
    value[0, 2, 3] = np.nan
    return value


def _row(value: Array) -> Array:
    value = value.copy()
    value[1, 4] = np.inf
    return value


FAULTS: Mapping[str, Callable[[Array], Array]] = {
    "all NaN": lambda v: np.full_like(v, np.nan),
    "one NaN": _one,
    "a row of infinities": _row,
    "much too large": lambda v: v * np.float32(1e5),
    "too large": lambda v: v * np.float32(3e4),
    "infinite where positive": lambda v: np.where(v > 0, np.float32(np.inf), v),
}


def main() -> None:
    """Run all cases and print what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    x = np.random.default_rng(3).uniform(-1, 1, SHAPE).astype(np.float32)
    cases = wrong = more = 0
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        onnx.save(net(), str(folder / "model.onnx"))
        np.save(folder / "x.npy", x)
        model = folder / "model.onnx"
        capture(CaptureRequest(model, folder / "golden", {"x": folder / "x.npy"}))
        for fault, change in FAULTS.items():
            for device in DEVICES:
                for where in ("fault", "scores", "residual", "up"):
                    name = f"{fault}, {device}, {where}"
                    if options.only not in name:
                        continue
                    try:
                        values = ran(net(), x, change, device, where)
                    except IndexError:
                        continue
                    place = folder / f"{cases}"
                    place.mkdir()
                    for tensor, value in values.items():
                        np.save(place / f"{tensor}.npy", value)
                    data = compare(CompareRequest(model, folder / "golden", model, place))
                    cases += 1
                    named = [origin.op for origin in data.origins]
                    wrong += named != [where]
                    more += len(set(named) - {where})
                    if options.show or named != [where]:
                        print(_line(name, data, where), flush=True)
    print(f"{cases} cases, {wrong} wrong, {more} more origins")


def _line(name: str, data: RunData, where: str) -> str:
    named = [origin.op for origin in data.origins]
    said = [each.cause for each in data.origins if each.op == where]
    return f"{'ok   ' if named == [where] else 'WRONG'} {name}: {data.run.verdict} {named} {said}"


if __name__ == "__main__":
    main()
