"""Ops that give another shape: is the op named, alone, and is what it did otherwise?

    python benchmarks/root_cause/shapes.py [--only NAME] [--show]

Each case is a small net with one op run with another attribute or constant, in the middle of the
net or at its end, in float32 or with dumps in float16, with all tensors dumped or without the one
before. Healthy controls have shapes that differ and are no fault.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.contract import RunData
from graphstore.errors import ExecutionError
from graphstore.model import OpState, Verdict

Array = np.ndarray
Nodes = Sequence[onnx.NodeProto]
LONG = np.iinfo(np.int64).max


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Shaped:
    """An op ``type`` on ``given`` (a tensor of the front of the net), right and as the device ran
    it: attributes and constants, which follow the first operand."""

    name: str
    type: str
    given: str
    right: Mapping[str, object]
    wrong: Mapping[str, object]
    words: str
    """What the cause must say."""
    opset: int = 17
    operands: tuple[str, ...] = ()
    outputs: int = 1
    wrong_type: str = ""
    kept: tuple[str, ...] = ()
    """Attributes of both, which are no lists of numbers."""


def _listed(*values: int) -> list[int]:
    return list(values)


def _cases() -> Iterator[Shaped]:
    for kind in ("ReduceL1", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp"):
        constant = kind == "ReduceSum"
        axes = ints if constant else _listed
        key = "1" if constant else "axes"
        yield Shaped(f"{kind} all", kind, "a", {key: axes(1)}, {key: axes(0, 1, 2, 3)}, "all axes")
        yield Shaped(f"{kind} other", kind, "a", {key: axes(1)}, {key: axes(2, 3)}, "axes [2, 3]")
        yield Shaped(f"{kind} one", kind, "a", {key: axes(2, 3)}, {key: axes(2)}, "axis 2")
    yield Shaped("ReduceMean 18", "ReduceMean", "a", {"1": ints(1)}, {"1": ints(2)}, "axis 2", 18)
    yield Shaped("ReduceMax 18", "ReduceMax", "a", {"1": ints(-1)}, {"1": ints(1)}, "axis 1", 18)
    yield Shaped("ArgMax", "ArgMax", "a", {"axis": 1}, {"axis": 3}, "axis 3")
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    for kind in ("MaxPool", "AveragePool"):
        odd = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}
        yield Shaped(f"{kind} ceil", kind, "odd", odd, odd | {"ceil_mode": 0}, "ceil_mode 0")
        yield Shaped(f"{kind} floor", kind, "odd", pool, odd, "ceil_mode 1")
        yield Shaped(f"{kind} strides", kind, "a", pool, pool | {"strides": [1, 1]}, "strides")
        yield Shaped(f"{kind} stride", kind, "a", pool, pool | {"strides": [2, 1]}, "strides")
        padded = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]}
        yield Shaped(f"{kind} pads", kind, "a", padded, padded | {"pads": [0, 0, 0, 0]}, "pads")
        yield Shaped(f"{kind} pad", kind, "a", padded, padded | {"pads": [0, 0, 1, 1]}, "pads")
        yield Shaped(f"{kind} kernel", kind, "a", pool, pool | {"kernel_shape": [3, 3]}, "kernel")
        same = {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}
        yield Shaped(f"{kind} auto", kind, "a", same, same | {"auto_pad": "VALID"}, "auto_pad")
    wide = {"kernel_shape": [3, 3], "dilations": [2, 2]}
    yield Shaped("MaxPool dilated", "MaxPool", "a", wide, {"kernel_shape": [3, 3]}, "dilations")
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    yield Shaped("Conv pads", "Conv", "a", conv, {"kernel_shape": [3, 3]}, "pads", operands=("w8",))
    yield Shaped(
        "Conv end pads", "Conv", "a", conv, conv | {"pads": [1, 1, 0, 0]}, "pads", operands=("w8",)
    )
    yield Shaped(
        "Conv strides",
        "Conv",
        "a",
        conv | {"strides": [2, 2]},
        conv,
        "strides",
        operands=("w8",),
    )
    yield Shaped(
        "Conv dilated",
        "Conv",
        "a",
        {"kernel_shape": [3, 3], "dilations": [2, 2]},
        {"kernel_shape": [3, 3]},
        "dilations",
        operands=("w8",),
    )
    up = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    for what, wrong in (
        ("output_padding", up),
        ("strides", up | {"strides": [1, 1], "output_padding": [0, 0]}),
    ):
        yield Shaped(
            f"ConvTranspose {what}",
            "ConvTranspose",
            "a",
            up | {"output_padding": [1, 1]} if what == "output_padding" else up,
            wrong,
            what,
            operands=("w8",),
        )
    yield Shaped("Concat axis", "Concat", "a", {"axis": 1}, {"axis": 2}, "axis 2", operands=("a2",))
    yield Shaped("Concat last", "Concat", "a", {"axis": 1}, {"axis": -1}, "axis", operands=("a2",))
    yield Shaped(
        "Gather axis",
        "Gather",
        "a",
        {"axis": 1, "1": ints(0, 3)},
        {"axis": 2, "1": ints(0, 3)},
        "axis 2",
    )
    yield Shaped(
        "Gather fewer",
        "Gather",
        "a",
        {"axis": 1, "1": ints(0, 1, 2, 3)},
        {"axis": 1, "1": ints(0, 1)},
        "first 2 of 4",
    )
    cut = {"1": ints(0, 0), "2": ints(6, 8), "3": ints(2, 3)}
    yield Shaped("Slice end", "Slice", "a", cut, cut | {"2": ints(5, 8)}, "in place of [6, 8]")
    yield Shaped(
        "Slice to the end", "Slice", "a", cut, cut | {"2": ints(LONG, LONG)}, "in place of [6, 8]"
    )
    yield Shaped("Slice begin", "Slice", "a", cut | {"1": ints(2, 0)}, cut, "in place of [2, 0]")
    yield Shaped("Slice axes", "Slice", "a", cut, cut | {"3": ints(1, 3)}, "in place of [2, 3]")
    steps = cut | {"4": ints(2, 2)}
    yield Shaped(
        "Slice steps", "Slice", "a", steps, steps | {"4": ints(1, 1)}, "in place of [2, 2]"
    )
    pads = {"1": ints(0, 0, 1, 1, 0, 0, 1, 1)}
    yield Shaped(
        "Pad begins only", "Pad", "a", pads, {"1": ints(0, 0, 1, 1, 0, 0, 0, 0)}, "in place of"
    )
    yield Shaped("Pad twice", "Pad", "a", pads, {"1": ints(0, 0, 2, 2, 0, 0, 2, 2)}, "in place of")
    yield Shaped(
        "Tile", "Tile", "a", {"1": ints(1, 1, 2, 3)}, {"1": ints(1, 1, 2, 2)}, "in place of"
    )
    yield Shaped(
        "Tile once", "Tile", "a", {"1": ints(1, 2, 1, 1)}, {"1": ints(1, 1, 1, 1)}, "in place of"
    )
    yield Shaped(
        "Expand",
        "Expand",
        "row",
        {"1": ints(1, 8, 12, 12)},
        {"1": ints(1, 8, 1, 12)},
        "in place of",
    )
    for what, mode in (("nearest", "nearest"), ("linear", "linear")):
        right = {
            "1": np.zeros(0, np.float32),
            "2": np.array([1, 1, 2, 2], np.float32),
            "mode": mode,
        }
        other = right | {"2": np.array([1, 1, 2, 1], np.float32)}
        yield Shaped(f"Resize {what}", "Resize", "a", right, other, "in place of")
        larger = right | {"2": np.array([1, 1, 3, 3], np.float32)}
        yield Shaped(f"Resize larger {what}", "Resize", "a", right, larger, "in place of")
    sized = {
        "1": np.zeros(0, np.float32),
        "2": np.zeros(0, np.float32),
        "3": ints(1, 8, 20, 20),
        "mode": "nearest",
    }
    yield Shaped(
        "Resize sizes", "Resize", "a", sized, sized | {"3": ints(1, 8, 20, 18)}, "in place of"
    )
    yield Shaped(
        "DepthToSpace", "DepthToSpace", "a", {"blocksize": 2}, {"blocksize": 1}, "blocksize"
    )
    yield Shaped(
        "SpaceToDepth", "SpaceToDepth", "a", {"blocksize": 2}, {"blocksize": 4}, "blocksize"
    )
    yield Shaped(
        "TopK",
        "TopK",
        "a",
        {"axis": 1, "1": ints(4)},
        {"axis": 1, "1": ints(3)},
        "in place of",
        outputs=2,
    )
    yield Shaped(
        "TopK axis",
        "TopK",
        "a",
        {"axis": 1, "1": ints(4)},
        {"axis": 2, "1": ints(4)},
        "axis",
        outputs=2,
    )
    yield Shaped(
        "Split",
        "Split",
        "a",
        {"axis": 1, "1": ints(5, 3)},
        {"axis": 1, "1": ints(4, 4)},
        "in place of",
        outputs=2,
    )
    yield Shaped(
        "OneHot",
        "OneHot",
        "best",
        {"1": ints(8), "2": np.array([0, 1], np.float32)},
        {"1": ints(9), "2": np.array([0, 1], np.float32)},
        "in place of",
    )
    yield Shaped(
        "Add to a vector",
        "Add",
        "row",
        {},
        {"row": ()},
        "",
        operands=("column",),
        wrong_type="first",
    )
    yield Shaped(
        "GlobalAveragePool left out",
        "GlobalAveragePool",
        "a",
        {},
        {},
        "did nothing",
        wrong_type="Identity",
    )
    yield Shaped("MaxPool left out", "MaxPool", "a", pool, {}, "did nothing", wrong_type="Identity")
    yield Shaped(
        "Concat of one",
        "Concat",
        "a",
        {"axis": 1},
        {},
        "missing",
        operands=("a2",),
        wrong_type="Identity",
    )
    yield Shaped(
        "Unpool of GlobalMaxPool",
        "GlobalMaxPool",
        "a",
        {},
        {"axes": [2], "keepdims": 1},
        "",
        wrong_type="ReduceMax",
    )


_FRONT = {
    "a": ("Conv", ["x", "w"], {"pads": [1, 1, 1, 1]}),
    "odd": ("Conv", ["x", "w"], {"pads": [1, 1, 0, 0]}),
    "a2": ("Conv", ["x", "v"], {"pads": [1, 1, 1, 1]}),
    "row": ("ReduceMean", ["a"], {"axes": [2], "keepdims": 1}),
    "column": ("ReduceMax", ["a"], {"axes": [3], "keepdims": 1}),
    "best": ("ArgMax", ["a"], {"axis": 1, "keepdims": 0}),
    "flat": ("ReduceMean", ["a"], {"axes": [2], "keepdims": 0}),
}


def _needed(names: Sequence[str]) -> list[str]:
    """The tensors of the front that *names* are made of, in order."""
    found: dict[str, None] = {}
    for name in names:
        if name in _FRONT:
            found.update(dict.fromkeys([*_needed(_FRONT[name][1]), name]))
    return list(found)


def net(case: Shaped, *, wrong: bool, last: bool) -> onnx.ModelProto:
    """The net of a case, right or as the device ran it."""
    rng = np.random.default_rng(5)
    weights = {
        "w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32) / 3,
        "v": rng.standard_normal((8, 3, 3, 3)).astype(np.float32) / 3,
        "w8": rng.standard_normal((8, 8, 3, 3)).astype(np.float32) / 6,
    }
    if case.opset >= 18:
        weights["axis2"] = ints(2)
    nodes = []
    for name in _needed([case.given, *case.operands]):
        kind, inputs, attrs = _FRONT[name]
        nodes.append(helper.make_node(kind, inputs, [name], name=f"front_{name}", **attrs))
    how = case.wrong if wrong else case.right
    inputs = [case.given, *case.operands]
    kind = case.type
    if wrong and case.wrong_type:
        kind = case.wrong_type
        if kind == "Identity":
            inputs = inputs[:1]
        elif kind == "first":
            kind = case.type
            nodes.append(helper.make_node("Slice", ["column", "zero", "one", "two"], ["column0"]))
            weights |= {"zero": ints(0), "one": ints(1), "two": ints(2)}
            inputs, how = ["row", "column0"], {}
    attrs = {name: value for name, value in how.items() if not name.isdigit()}
    for place in sorted(name for name in how if name.isdigit()):
        weights[f"k{place}"] = np.asarray(how[place])
        inputs.append(f"k{place}")
    outputs = [f"b{n}" if n else "b" for n in range(case.outputs)]
    nodes.append(helper.make_node(kind, inputs, outputs, name="op", **attrs))
    made = "b"
    if not last:
        nodes.append(helper.make_node("Cast", ["b"], ["c"], name="to_float", to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Sigmoid", ["c"], ["s"], name="sigmoid"))
        nodes.append(helper.make_node("GlobalAveragePool", ["s"], ["g"], name="gap"))
        made = "g"
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 12])],
        [onnx.ValueInfoProto(name=made)],
        [
            numpy_helper.from_array(value, name)
            for name, value in weights.items()
            if _read(name, nodes)
        ],
    )
    opset = helper.make_opsetid("", case.opset)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def _read(name: str, nodes: Nodes) -> bool:
    return any(name in node.input for node in nodes)


@dataclass(frozen=True)
class Outcome:
    """What a comparison said of a case."""

    name: str
    problems: Sequence[str] = field(default_factory=tuple)
    cause: str = ""


def compared(case: Shaped, folder: Path, *, last: bool, half: bool, without: bool) -> RunData:
    """The run of a case; dumps of the device are in float16 if *half*, the tensor before the op is
    not dumped if *without*."""
    folder.mkdir()
    onnx.save(net(case, wrong=False, last=last), str(folder / "golden.onnx"))
    onnx.save(net(case, wrong=True, last=last), str(folder / "ran.onnx"))
    x = np.random.default_rng(3).uniform(-1, 1, (1, 3, 12, 12)).astype(np.float32)
    np.save(folder / "x.npy", x)
    fed = {"x": folder / "x.npy"}
    capture(CaptureRequest(folder / "golden.onnx", folder / "golden", fed))
    capture(CaptureRequest(folder / "ran.onnx", folder / "device", fed))
    for path in folder.glob("device/*.npy"):
        if half and (value := np.load(path)).dtype == np.float32:
            np.save(path, value.astype(np.float16))
        if without and path.name.startswith(f"front_{case.given}."):
            path.unlink()
    model = folder / "golden.onnx"
    return compare(CompareRequest(model, folder / "golden", model, folder / "device"))


def outcome(case: Shaped, name: str, data: RunData) -> Outcome:
    """What is wrong about the answer."""
    problems: list[str] = []
    cause = data.origins[0].cause or "" if data.origins else ""
    if data.run.verdict is not Verdict.DIVERGED:
        problems.append(f"verdict {data.run.verdict}")
    if [each.op for each in data.origins[:1]] != ["op"]:
        problems.append(f"first {[each.op for each in data.origins[:1]]}")
    if len(data.origins) > 1:
        problems.append(f"more origins: {[each.op for each in data.origins[1:]]}")
    if case.words not in cause or "its shape is" not in cause:
        problems.append("cause")
    behind = {op for op, state in data.states.items() if state is OpState.NOT_COMPARED}
    if behind & {"sigmoid", "to_float", "gap"}:
        problems.append(f"not compared: {sorted(behind)}")
    return Outcome(name, problems, cause)


def _vector_net(*, wrong: bool) -> onnx.ModelProto:
    """A mean over rows taken off a square matrix; without its axis it is taken off by columns."""
    weights = {"w": np.random.default_rng(5).standard_normal((6, 6)).astype(np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
        helper.make_node("ReduceMean", ["p"], ["m"], name="op", axes=[1], keepdims=1 - wrong),
        helper.make_node("Sub", ["p", "m"], ["d"], name="sub"),
        helper.make_node("Tanh", ["d"], ["y"], name="tanh"),
    ]
    graph = helper.make_graph(
        nodes,
        "vector",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, 6])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def _of_models(
    folder: Path, golden: onnx.ModelProto, ran: onnx.ModelProto, x: Array, fed: Array | None = None
) -> RunData:
    folder.mkdir()
    onnx.save(golden, str(folder / "golden.onnx"))
    onnx.save(ran, str(folder / "ran.onnx"))
    for name, value in (("x", x), ("fed", x if fed is None else fed)):
        np.save(folder / f"{name}.npy", value)
    for side, model, given in (("golden", "golden", "x"), ("device", "ran", "fed")):
        request = CaptureRequest(
            folder / f"{model}.onnx", folder / side, {"x": folder / f"{given}.npy"}
        )
        capture(request)
    return _again(folder)


def _again(folder: Path) -> RunData:
    model = folder / "golden.onnx"
    return compare(CompareRequest(model, folder / "golden", model, folder / "device"))


def _controls(folder: Path) -> Iterator[tuple[str, RunData, bool]]:
    """Name, run, and whether an op is at fault."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (6, 6)).astype(np.float32)
    right, wrong = _vector_net(wrong=False), _vector_net(wrong=True)
    yield "lost axis", _of_models(folder / "1", right, wrong, x), True
    yield "squeezed dump", _of_models(folder / "2", right, right, x), False
    for path in (folder / "2").glob("device/op.*.npy"):
        np.save(path, np.load(path).reshape(-1))
    yield "squeezed dump", _again(folder / "2"), False
    case = next(each for each in _cases() if each.name == "MaxPool floor")
    image = rng.uniform(-1, 1, (1, 3, 12, 12)).astype(np.float32)
    two = np.concatenate([image, image])
    for name, fed in (("another batch", two), ("same batch twice", np.flip(two))):
        golden = net(case, wrong=False, last=False)
        golden.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
        place = folder / name.replace(" ", "_")
        yield name, _of_models(place, golden, golden, image, fed), False
        for path in place.glob("device/x.*.npy"):
            path.unlink()
        yield f"{name}, input not dumped", _again(place), False
    flat = folder / "flat"
    yield "right", _of_models(flat, golden, golden, image), False
    for path in flat.glob("device/*.npy"):
        np.save(path, np.load(path).reshape(-1))
    yield "flattened dumps", _again(flat), False
    for path in flat.glob("golden/*.npy"):
        name = path.name.split(".")[0]
        (there,) = flat.glob(f"device/{name}.*.npy")
        value = np.load(path)
        if value.ndim == 4 and name != "x":
            np.save(there, np.moveaxis(value, 1, -1))
    yield "channels last", _again(flat), False


def main() -> None:
    """Run all cases and print what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    for case in _cases():
        for last, half, without in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)):
            how = " last" * last + " half" * half + " without" * without
            name = f"{case.name}{how}"
            if options.only not in name:
                continue
            with tempfile.TemporaryDirectory() as folder:
                try:
                    data = compared(
                        case,
                        Path(folder) / "run",
                        last=bool(last),
                        half=bool(half),
                        without=bool(without),
                    )
                except ExecutionError as error:  # the tail does not run on every shape
                    outcomes.append(Outcome(name, [f"did not run: {error}"]))
                else:
                    outcomes.append(outcome(case, name, data))
            if options.show or outcomes[-1].problems:
                print(
                    name, "|", "; ".join(outcomes[-1].problems), "|", outcomes[-1].cause, flush=True
                )
    if options.only in ("", "controls"):
        with tempfile.TemporaryDirectory() as folder:
            for name, data, faulty in _controls(Path(folder)):
                origins = [each.op for each in data.origins]
                problems = [] if origins == ["op"] * faulty else [f"origins {origins}"]
                outcomes.append(Outcome(name, problems))
                if options.show or problems:
                    print(name, data.run.verdict, problems, [each.cause for each in data.origins])
    wrong = [each for each in outcomes if each.problems]
    print(f"{len(outcomes)} cases, {len(wrong)} wrong")


if __name__ == "__main__":
    main()
