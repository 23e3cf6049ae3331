"""Parts of results that a scale wipes out: is the op named that lost them, and nothing else?

    python benchmarks/root_cause/lost_parts.py [--only NAME] [--show]

Heads of detectors and the like whose parts have one scale of 8 bits, simulated on floats or as
ONNX Runtime quantises, and sums that half precision cannot hold; with healthy controls.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from graphstore.contract import RunData

Array = np.ndarray
SHAPE = (1, 3, 16, 16)


@dataclass(frozen=True)
class Head:
    """A net whose branches are joined: ``ranges`` are the sizes of the branches, in order.

    ``tail`` is what follows the Concat, ``axis`` where it joins, ``kind`` the function of the
    branches.
    """

    ranges: tuple[float, ...]
    axis: int = 1
    tail: str = "turned"
    kind: str = "Sigmoid"
    seed: int = 0


def net(head: Head) -> onnx.ModelProto:
    """The net of a head."""
    rng = np.random.default_rng(head.seed + 5)
    weights = {"w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32) / 3}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["s"], name="stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["s"], ["r"], name="relu"),
    ]
    parts = []
    for number, size in enumerate(head.ranges):
        channels = 4 + number if head.axis == 1 else 4
        weights[f"w{number}"] = rng.standard_normal((channels, 8, 1, 1)).astype(np.float32) / 2
        weights[f"b{number}"] = rng.uniform(-2, 0, channels).astype(np.float32)
        weights[f"size{number}"] = np.array([size], np.float32)
        names = [f"{kind}{number}" for kind in ("conv", "act", "part")]
        inputs = ["r", f"w{number}", f"b{number}"]
        nodes.append(helper.make_node("Conv", inputs, names[:1], name=names[0]))
        nodes.append(helper.make_node(head.kind, names[:1], names[1:2], name=names[1]))
        scaled = [names[1], f"size{number}"]
        nodes.append(helper.make_node("Mul", scaled, names[2:], name=names[2]))
        parts.append(names[2])
    nodes.append(helper.make_node("Concat", parts, ["cat"], name="cat", axis=head.axis))
    made = "cat"
    if head.tail in ("turned", "flat"):
        weights["flat"] = np.array([1, 0, -1], np.int64)
        nodes.append(helper.make_node("Reshape", ["cat", "flat"], ["rows"], name="rows"))
        made = "rows"
        weights["flat"] = np.array([1, -1, SHAPE[2] * SHAPE[3]], np.int64)
        if head.tail == "turned":
            nodes.append(
                helper.make_node("Transpose", ["rows"], ["y"], name="turn", perm=[0, 2, 1])
            )
            made = "y"
    elif head.tail == "conv":
        count = sum(4 + n for n in range(len(parts))) if head.axis == 1 else 4
        last = rng.standard_normal((6, count, 1, 1)).astype(np.float32)
        start = 0
        for number, size in enumerate(head.ranges if head.axis == 1 else ()):
            last[:, start : start + 4 + number] /= size
            start += 4 + number
        weights["last"] = last
        nodes.append(helper.make_node("Conv", ["cat", "last"], ["y"], name="last"))
        made = "y"
    return _model(nodes, weights, made)


def _model(
    nodes: list[onnx.NodeProto], weights: Mapping[str, Array], *made: str
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(SHAPE))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in made],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def simulated(
    model: onnx.ModelProto, x: Array, *, signed: bool, scales: Mapping[str, float]
) -> dict[str, Array]:
    """Every tensor of *model* in 8 bits of a scale of its own, as simulators dump it; *scales* are
    shares of the range that a tensor is held in."""
    from onnx.reference import ReferenceEvaluator

    values = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    values["x"] = x
    shapes = dict(values)
    for node in model.graph.node:
        piece = helper.make_graph(
            [node],
            "op",
            [onnx.ValueInfoProto(name=name) for name in node.input],
            [onnx.ValueInfoProto(name=name) for name in node.output],
        )
        alone = helper.make_model(piece, opset_imports=model.opset_import, ir_version=8)
        fed = {name: values[name] for name in node.input}
        (made,) = ReferenceEvaluator(alone).run(None, fed)
        share = scales.get(node.name, 1.0)
        if node.op_type in ("Reshape", "Transpose") and share == 1.0:
            values[node.output[0]] = made
            continue
        low, high = float(made.min()) * share, float(made.max()) * share
        if signed or low < 0:
            step = max(-low, high) / 127
            codes = np.clip(np.round(made / step), -127, 127)
        else:
            step = high / 255
            codes = np.clip(np.round(made / step), 0, 255)
        values[node.output[0]] = (codes * np.float32(step)).astype(np.float32)
    return {name: value for name, value in values.items() if name not in shapes}


def _image() -> Array:
    return np.random.default_rng(3).uniform(0, 1, SHAPE).astype(np.float32)


def of_simulation(
    folder: Path, model: onnx.ModelProto, *, signed: bool = False, scales: Mapping[str, float] = {}
) -> RunData:
    """The run of *model* against itself in simulated 8 bits."""
    folder.mkdir()
    path = folder / "model.onnx"
    onnx.save(model, str(path))
    np.save(folder / "x.npy", _image())
    capture(CaptureRequest(path, folder / "golden", {"x": folder / "x.npy"}))
    (folder / "device").mkdir()
    np.save(folder / "device" / "x.npy", _image())
    for name, value in simulated(model, _image(), signed=signed, scales=scales).items():
        np.save(folder / "device" / f"{name}.npy", value)
    return compare(CompareRequest(path, folder / "golden", path, folder / "device"))


def of_stand_in(folder: Path, model: onnx.ModelProto, kind: StandIn) -> RunData:
    """The run of *model* against a stand-in of it."""
    folder.mkdir()
    path = folder / "model.onnx"
    onnx.save(model, str(path))
    np.save(folder / "x.npy", _image())
    fed = {"x": folder / "x.npy"}
    capture(CaptureRequest(path, folder / "golden", fed))
    device = capture(CaptureRequest(path, folder / "device", fed, device=kind)).model
    return compare(CompareRequest(path, folder / "golden", device, folder / "device"))


def sums(offset: float, *, branch: bool, size: float = 1.0) -> onnx.ModelProto:
    """A number added and taken off again, of all of a net or in a branch of a Concat."""
    rng = np.random.default_rng(5)
    weights = {
        "w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32) / 3,
        "offset": np.array([offset], np.float32),
        "size": np.array([size], np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["s"], name="stem", pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["s"], ["r"], name="act"),
        helper.make_node("Mul", ["r", "size"], ["m"], name="scaled"),
        helper.make_node("Add", ["m", "offset"], ["p"], name="add"),
        helper.make_node("Sub", ["p", "offset"], ["q"], name="sub"),
    ]
    made = "q"
    if branch:
        nodes.append(helper.make_node("Concat", ["s", "q"], ["cat"], name="cat", axis=1))
        made = "cat"
    return _model(nodes, weights, made)


def rare_class(*, softmax: bool) -> onnx.ModelProto:
    """Class scores of which one is hardly ever far from 0."""
    rng = np.random.default_rng(5)
    bias = np.array([0, 1, -0.5, -12], np.float32)
    weights = {
        "w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32) / 3,
        "v": rng.standard_normal((4, 8, 1, 1)).astype(np.float32),
        "b": bias,
    }
    last = ("Softmax", {"axis": 1}) if softmax else ("Sigmoid", {})
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["s"], name="stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["s"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "v", "b"], ["c"], name="classes"),
        helper.make_node(last[0], ["c"], ["y"], name="scores", **last[1]),
    ]
    return _model(nodes, weights, "y")


def _heads() -> Iterator[tuple[str, Head, bool]]:
    for ranges in ((640.0, 0.25), (0.25, 640.0), (300.0, 1.0), (1.0, 0.001), (640.0, 0.5, 320.0)):
        for tail in ("turned", "none", "conv"):
            yield f"{ranges} {tail}", Head(ranges, tail=tail), True
    yield "along rows", Head((640.0, 0.25), axis=2, tail="none"), True
    yield "from the end", Head((640.0, 0.25), axis=-1, tail="none"), True
    yield "of tanh", Head((640.0, 0.25), kind="Tanh"), True
    yield "of relu", Head((2000.0, 0.5), kind="Relu", tail="none"), True
    for ranges in ((1.0, 1.0), (4.0, 1.0), (1.0, 10.0), (20.0, 1.0), (1.0, 2.0, 5.0)):
        for tail in ("turned", "none", "conv"):
            yield f"{ranges} {tail}", Head(ranges, tail=tail), False


def runs(folder: Path, only: str) -> Iterator[tuple[str, RunData, str]]:
    """Name, run, and the golden op that is at fault, "" for none."""
    number = 0
    for name, head, faulty in _heads():
        for how in ("signed", "unsigned", "QDQ"):
            said = f"{name} {how}"
            if only not in said:
                continue
            number += 1
            place = folder / f"{number}"
            model = net(head)
            data = (
                of_stand_in(place, model, StandIn.INT8)
                if how == "QDQ"
                else of_simulation(place, model, signed=how == "signed")
            )
            yield said, data, "cat" if faulty else ""
    others = {
        "cut off": (
            lambda p: of_simulation(p, net(Head((1.0, 1.0), tail="none")), scales={"part1": 0.2}),
            "part1",
        ),
        "cut off at the end": (
            lambda p: of_simulation(p, rare_class(softmax=False), scales={"scores": 0.1}),
            "scores",
        ),
        "rare class": (lambda p: of_simulation(p, rare_class(softmax=False)), ""),
        "rare class QDQ": (lambda p: of_stand_in(p, rare_class(softmax=False), StandIn.INT8), ""),
        "rare class softmax": (lambda p: of_simulation(p, rare_class(softmax=True)), ""),
        "rare class fp16": (lambda p: of_stand_in(p, rare_class(softmax=True), StandIn.FP16), ""),
        "added 65504": (
            lambda p: of_stand_in(p, sums(65504, branch=False, size=0.9), StandIn.FP16),
            "add",
        ),
        "added 20000": (lambda p: of_stand_in(p, sums(20000, branch=False), StandIn.FP16), "add"),
        "added 20000 in a branch": (
            lambda p: of_stand_in(p, sums(20000, branch=True), StandIn.FP16),
            "add",
        ),
        "added 4000 to small ones": (
            lambda p: of_stand_in(p, sums(4000, branch=True, size=0.5), StandIn.FP16),
            "add",
        ),
        "added 2": (lambda p: of_stand_in(p, sums(2, branch=True), StandIn.FP16), ""),
        "added 30": (lambda p: of_stand_in(p, sums(30, branch=False), StandIn.FP16), ""),
        "fp16 of all ranges": (
            lambda p: of_stand_in(p, net(Head((640.0, 0.25))), StandIn.FP16),
            "",
        ),
    }
    for name, (make, fault) in others.items():
        if only in name:
            number += 1
            yield name, make(folder / f"{number}"), fault


def main() -> None:
    """Run all cases and print what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    cases = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, data, fault in runs(Path(folder), options.only):
            cases += 1
            named = [[ref.op for ref in origin.golden] for origin in data.origins]
            right = len(named) == bool(fault) and all(fault in each for each in named)
            wrong += not right
            if options.show or not right:
                causes = [origin.cause for origin in data.origins]
                print(
                    "ok   " if right else "WRONG", name, data.run.verdict, named, causes, flush=True
                )
    print(f"{cases} cases, {wrong} wrong")


if __name__ == "__main__":
    main()
