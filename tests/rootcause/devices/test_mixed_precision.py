"""A device that computes in float16, but keeps some ops in float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx_files import written_model
from onnxruntime.transformers.float16 import convert_float_to_float16

from divergraph.comparison import CompareRequest, compare
from divergraph.files.dump_names import DumpFileNames
from divergraph.files.npy_file import write_npy
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.jobs.progress import NO_PROGRESS
from divergraph.rootcause.devices.mixed_precision import DeclaredTypes
from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.submodel.minimize.minimize_run import MinimizeRequest, minimize_run
from divergraph.submodel.run_parts import opened
from graphstore.model import (
    COMPUTE_TYPE,
    DType,
    ErrorSplit,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Tensor,
    TensorIO,
    TensorRef,
)
from importers.registry import read_graph

KEPT = ["conv2", "relu2", "conv3", "relu3"]


@pytest.fixture
def mixed(sides):
    """Runs the network with *kept* ops in float32; *gain* is on the weights of conv3."""
    made = sides()

    def run(gain: float, kept: Sequence[str] = KEPT):
        model = onnx.load_model(str(made.folder / "golden.onnx"))
        (weight,) = (each for each in model.graph.initializer if each.name == "w3")
        louder = onnx.numpy_helper.to_array(weight) * np.float32(gain)
        weight.CopyFrom(onnx.numpy_helper.from_array(louder, "w3"))
        half = convert_float_to_float16(model, keep_io_types=True, node_block_list=list(kept))
        path = made.folder / "mixed.onnx"
        onnx.save_model(half, str(path))
        inputs = {"x": made.folder / "x.npy"}
        capture(CaptureRequest(path, made.folder / "mixed_run", inputs))
        return replace(made.request, device=path, device_dump=made.folder / "mixed_run")

    return run


def floors(data) -> dict[str, ErrorSplit]:
    """The split of each op's output."""
    return {
        item.op: item.split
        for item in data.comparisons
        if item.io is TensorIO.OUTPUT and item.split is not None
    }


def test_ops_kept_in_float32_have_floors_of_float32(mixed):
    data = compare(mixed(1.0))
    assert not data.origins
    assert not data.suspects
    assert str(data.run.analysis.arithmetic) == "fp16"
    by_op = floors(data)
    assert by_op["conv3"].floor < 1e-5
    assert by_op["conv1"].floor > 1e-4
    assert len(data.run.analysis.arithmetic.fp32_ops) > 1
    assert "conv3" in data.run.analysis.arithmetic.fp32_ops


def test_a_fault_there_is_found_that_float16_would_hide(mixed):
    data = compare(mixed(1.0002))
    assert [origin.op for origin in data.origins] == ["conv3"]


def test_minimise_measures_these_ops_alone_by_float32(mixed, tmp_path, monkeypatch):
    monkeypatch.setenv("DIVERGRAPH_CACHE", str(tmp_path / "cache"))
    parts = opened(compare(mixed(1.0002)), NO_PROGRESS)
    found = minimize_run(parts, MinimizeRequest(oracle="device-model"))
    assert [part.ops for part in found.parts] == [("conv3",)]
    assert found.parts[0].judgement.limit < 1e-5


def test_values_tell_where_the_graph_does_not(mixed):
    """The golden graph for the device's: all float32, whatever the dump holds. What no 16-bit type
    holds was computed in float32, and what is in one was not."""
    request = mixed(1.0002)
    data = compare(replace(request, device=request.golden))
    assert [origin.op for origin in data.origins] == ["conv3"]
    by_op = floors(data)
    assert by_op["conv3"].floor < 1e-5
    assert by_op["conv1"].floor > 1e-4


def test_float32_numbers_with_errors_of_sixteen_bits_are_not_believed(mixed):
    """Every op that gives float32 numbers is off by more: it computed in 16 bits all the same."""
    request = mixed(1.0008, ["conv3", "relu3"])
    data = compare(replace(request, device=request.golden))
    assert not data.origins
    assert floors(data)["conv3"].floor > 1e-4


def hide(request, *ops: str):
    """Delete what the device dumped of these ops."""
    for op in ops:
        (path,) = request.device_dump.glob(f"{op}.0.*.npy")
        path.unlink()


def test_sixteen_bits_between_two_float32_dumps_have_floors_of_sixteen_bits(mixed):
    """conv1 and relu1 are in float16 and not dumped; conv2 behind them is float32."""
    request = mixed(1.0)
    casts = [path.name for path in request.device_dump.glob("*ast*.npy")]
    hide(request, "conv1", "relu1", *(name.partition(".")[0] for name in casts))
    data = compare(request)
    assert floors(data)["conv2"].floor > 1e-4
    assert not data.origins
    assert not data.suspects


@pytest.mark.parametrize("widened", [False, True])
def test_a_few_ops_in_sixteen_bits_are_no_origins(sides, widened):
    """relu3 of a float32 device computes in float16, and its graph says so."""
    made = sides()
    model = onnx.load_model(str(made.folder / "golden.onnx"))
    place = next(n for n, node in enumerate(model.graph.node) if node.name == "relu3")
    model.graph.node.remove(model.graph.node[place])
    for node in reversed(
        [
            onnx.helper.make_node("Cast", ["c3"], ["c3_half"], name="c3_half", to=10),
            onnx.helper.make_node("Relu", ["c3_half"], ["r3_half"], name="relu3"),
            onnx.helper.make_node("Cast", ["r3_half"], ["r3"], name="r3_back", to=1),
        ]
    ):
        model.graph.node.insert(place, node)
    path = made.folder / "mixed.onnx"
    onnx.save_model(model, str(path))
    capture(CaptureRequest(path, made.folder / "mixed_run", {"x": made.folder / "x.npy"}))
    request = replace(made.request, device=path, device_dump=made.folder / "mixed_run")
    hide(request, "c3_half", "r3_back")
    if widened:
        (dumped,) = request.device_dump.glob("relu3.0.*.npy")
        np.save(dumped, np.load(dumped).astype(np.float32))
    data = compare(request)
    assert str(data.run.analysis.arithmetic) == "fp32"
    assert not data.origins
    assert not data.suspects
    assert floors(data)["conv1"].floor < 1e-5


def test_a_constant_cast_from_a_rounded_one_is_none_of_float32(mixed):
    """The bias of an op in float32 is stored in float16 and cast back."""
    request = mixed(1.0)
    model = onnx.load_model(str(request.device))
    (stored,) = (each for each in model.graph.initializer if each.name == "b3")
    value = onnx.numpy_helper.to_array(stored)
    stored.CopyFrom(onnx.numpy_helper.from_array(value.astype(np.float16), "b3_half"))
    cast = onnx.helper.make_node("Cast", ["b3_half"], ["b3"], name="cast_b3", to=1)
    model.graph.node.insert(0, cast)
    onnx.save_model(model, str(request.device))
    inputs = {"x": request.golden.parent / "x.npy"}
    again = request.device_dump.parent / "again"
    capture(CaptureRequest(request.device, again, inputs))
    data = compare(replace(request, device_dump=again))
    assert not data.origins
    assert floors(data)["conv3"].floor > 1e-4
    assert floors(data)["relu2"].floor < 1e-5


def test_a_rounded_tensor_that_is_moved_about_is_not_the_precision_of_the_device(tmp_path):
    """A third of the tensors hold bfloat16 numbers, but one op only made them."""
    kinds = [*("Tanh", "Sigmoid", "Sin") * 2, "Exp", "Transpose", "Reshape", "Transpose"]
    names = ["x", *(f"t{number}" for number in range(len(kinds)))]
    nodes = [
        onnx.helper.make_node(
            kind, [taken, "same"] if kind == "Reshape" else [taken], [made], f"op{number}"
        )
        for number, (kind, taken, made) in enumerate(zip(kinds, names, names[1:], strict=False))
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value("x", onnx.TensorProto.FLOAT, [20, 20])],
        [value(names[-1], onnx.TensorProto.FLOAT, [20, 20])],
        [onnx.numpy_helper.from_array(np.array([20, 20]), "same")],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path / "m.onnx"
    onnx.save_model(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    x = np.random.default_rng(2).standard_normal((20, 20)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    for side in ("golden", "device"):
        capture(CaptureRequest(path, tmp_path / side, {"x": tmp_path / "x.npy"}))
    for dump in (tmp_path / "device").glob("*.npy"):
        if dump.name.partition(".")[0] in ("op6", "op7", "op8", "op9"):
            np.save(dump, BF16.rounded(np.load(dump)))

    data = compare(CompareRequest(path, tmp_path / "golden", path, tmp_path / "device"))

    assert str(data.run.analysis.arithmetic) == "fp32"
    assert [origin.op for origin in data.origins] == ["op6"]


@pytest.mark.parametrize(
    ("said", "half"), [(("", ""), True), (("float32", "float32"), False), (("bfloat16", ""), True)]
)
def test_what_ops_compute_in_is_told_besides_the_types_of_their_outputs(said, half):
    """Two ops between dumps in float32: without a word they may hand on 16 bits."""
    attrs = [{COMPUTE_TYPE: each} if each else {} for each in said]
    out = Tensor("y", DType.FLOAT32)
    first = Op("first", "first", "MatMul", (InputRef("x"),), outputs=(out,), attrs=attrs[0])
    taken = InputRef("y", TensorRef("first", 0))
    last = Op("last", "last", "Relu", (taken,), outputs=(out,), attrs=attrs[1])
    fed = (Tensor("x", DType.FLOAT32),)
    told = ModelGraph("net", GraphKind.DEVICE, Framework.OPENVINO, "openvino", (first, last))
    graph = OpGraph(replace(told, inputs=fed))
    output = TensorRef("last", 0)
    dumped = {output: SimpleNamespace(device_dtype=DType.FLOAT32)}
    types = DeclaredTypes(graph, dumped, None, is_declared=False)
    assert types.is_half(Group(output, output, ("first", "last"))) == half


def test_types_whose_errors_are_of_sixteen_bits_are_not_judged_as_the_others(tmp_path):
    """Sigmoid is in float32, each Exp is off by 16 bits and not rounded: a kernel of its own. What
    float32 numbers of one type show says nothing of another."""
    kinds = ["Mul"] * 6 + ["Exp", "Sigmoid"] * 2 + ["Sigmoid"] * 2
    nodes, tensor = [], "x"
    for number, kind in enumerate(kinds):
        given, tensor = tensor, "y" if number == len(kinds) - 1 else f"t{number}"
        reads = [given, "half"] if kind == "Mul" else [given]
        nodes.append(onnx.helper.make_node(kind, reads, [tensor], name=f"{kind}{number}"))
    half = np.float32([0.97])
    model = written_model(tmp_path / "net.onnx", nodes, {"half": half}, [1, 400])
    rng = np.random.default_rng(0)
    feed = rng.normal(size=(1, 400)).astype(np.float32)
    np.save(tmp_path / "x.npy", feed)
    capture(CaptureRequest(model, tmp_path / "golden", {"x": tmp_path / "x.npy"}))
    graph = read_graph(model)
    names, value = DumpFileNames(graph, 1), feed
    (tmp_path / "device").mkdir()
    for op in graph.ops:
        if op.type == "Mul":
            value = (value.astype(np.float16) * half.astype(np.float16)).astype(np.float32)
        elif op.type == "Exp":
            value = np.exp(value) * (1 + rng.normal(0, 3e-4, value.shape)).astype(np.float32)
        else:
            value = (1 / (1 + np.exp(-value.astype(np.float64)))).astype(np.float32)
        write_npy(tmp_path / "device" / names.of_output(op, 0), value)
    data = compare(CompareRequest(model, tmp_path / "golden", model, tmp_path / "device"))
    assert str(data.run.analysis.arithmetic) == "fp16"
    assert not data.origins
    by_op = floors(data)
    assert all(by_op[f"Exp{number}"].floor > 1e-4 for number in (6, 8))
    assert all(by_op[f"Sigmoid{number}"].floor < 1e-5 for number in (7, 9, 10, 11))


@pytest.mark.parametrize("rounded", [1, 3])
def test_sums_in_sixteen_bits_are_not_taken_for_operands_in_sixteen_bits(tmp_path, rounded):
    """All convolutions add up in float16 and give float32 numbers. Operands of fewer bits would
    explain those whose operands were not rounded yet, but not the few that read rounded ones."""
    rng, count = np.random.default_rng(5), 9
    info, proto = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    nodes, feeds, device, inputs = [], {}, {}, {}

    def made(kind: str, read: Sequence[str], name: str, value: np.ndarray) -> np.ndarray:
        nodes.append(onnx.helper.make_node(kind, read, [name], name))
        device[name] = value
        return value

    for number in range(count):
        kind = np.float16 if number < rounded else np.float32
        operands = []
        for name, shape in (("x", (1, 8, 14, 14)), ("w", (8, 8, 3, 3))):
            value = rng.standard_normal(shape).astype(kind)
            feeds[f"{name}{number}"] = -value.astype(np.float32)
            operands.append(made("Neg", [f"{name}{number}"], f"{name}_read{number}", value))
        x, w = (each.astype(np.float64) for each in operands)
        patches = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        sums = np.einsum("nchwij,ocij->nohw", patches, w)
        off = (1 + 7e-4 * rng.standard_normal(sums.shape)).astype(np.float32)
        read = [f"x_read{number}", f"w_read{number}"]
        value = made("Conv", read, f"sums{number}", (sums * off).astype(np.float32))
        last = f"sums{number}"
        for kind, function in (("Tanh", np.tanh), ("Sin", np.sin), ("Neg", np.negative)):
            value = made(kind, [last], f"{kind}{number}", function(value).astype(np.float16))
            last = f"{kind}{number}"
    ends = [info(name, proto, value.shape) for name, value in feeds.items()]
    outs = [info(f"Neg{number}", proto, None) for number in range(count)]
    graph = onnx.helper.make_graph(nodes, "g", ends, outs)
    opset = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path / "net.onnx"
    onnx.save_model(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    for name, value in feeds.items():
        inputs[name] = tmp_path / f"{name}.npy"
        np.save(inputs[name], value)
    capture(CaptureRequest(path, tmp_path / "golden", inputs))
    known = read_graph(path)
    (tmp_path / "device").mkdir()
    names = DumpFileNames(known, 1)
    for op in known.ops:
        write_npy(tmp_path / "device" / names.of_output(op, 0), device[op.id])
    data = compare(CompareRequest(path, tmp_path / "golden", path, tmp_path / "device"))
    assert str(data.run.analysis.arithmetic) == "fp16/plain, sums fp16 by 4, in some order"
    assert [origin.op for origin in data.origins] == []
