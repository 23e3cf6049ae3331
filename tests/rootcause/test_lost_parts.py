"""Parts of results that a step wipes out, though the arithmetic explains it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from divergraph.rootcause.lost_parts import LostPart, lost_parts
from graphstore.contract import RunData
from graphstore.model import Verdict

Array = np.ndarray
SHAPE = (1, 3, 12, 12)


def saved(path: Path, nodes: list[NodeProto], made: str, **weights: Array) -> Path:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(SHAPE))],
        [helper.make_tensor_value_info(made, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(path))
    return path


def head(path: Path, *ranges: float) -> Path:
    """Branches of these ranges, joined and turned as detectors have them."""
    rng = np.random.default_rng(5)
    weights = {"w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32) / 3}
    nodes = [helper.make_node("Conv", ["x", "w"], ["stem"], name="stem", pads=[1, 1, 1, 1])]
    for k, size in enumerate(ranges):
        weights[f"w{k}"] = rng.standard_normal((4, 8, 1, 1)).astype(np.float32)
        weights[f"size{k}"] = np.array([size], np.float32)
        nodes += [
            helper.make_node("Conv", ["stem", f"w{k}"], [f"c{k}"], name=f"conv{k}"),
            helper.make_node("Sigmoid", [f"c{k}"], [f"s{k}"], name=f"act{k}"),
            helper.make_node("Mul", [f"s{k}", f"size{k}"], [f"part{k}"], name=f"part{k}"),
        ]
    parts = [f"part{k}" for k in range(len(ranges))]
    nodes.append(helper.make_node("Concat", parts, ["cat"], name="cat", axis=1))
    nodes.append(helper.make_node("Transpose", ["cat"], ["y"], name="turn", perm=[0, 2, 3, 1]))
    return saved(path, nodes, "y", **weights)


def golden_dump(model: Path) -> Mapping[str, Path]:
    """The golden dump of *model*, beside it; its inputs."""
    x = np.random.default_rng(3).uniform(0, 1, SHAPE).astype(np.float32)
    np.save(model.parent / "x.npy", x)
    fed = {"x": model.parent / "x.npy"}
    capture(CaptureRequest(model, model.parent / "golden", fed))
    return fed


def against(model: Path, kind: StandIn) -> RunData:
    """The run of *model* against a stand-in."""
    fed = golden_dump(model)
    folder = model.parent / "device"
    device = capture(CaptureRequest(model, folder, fed, device=kind)).model
    return compare(CompareRequest(model, model.parent / "golden", device, folder))


def in_floats_of_8_bits(model: Path) -> RunData:
    """The run of *model* against itself, each op's result in 8 bits with a scale of its own, in a
    dump of floats beside a graph that says nothing of it."""
    golden_dump(model)
    folder = model.parent / "device"
    folder.mkdir()
    values = {each.name: numpy_helper.to_array(each) for each in onnx.load(model).graph.initializer}
    values["x"] = np.load(model.parent / "x.npy")
    for node in onnx.load(model).graph.node:
        piece = helper.make_graph(
            [node],
            "op",
            [onnx.ValueInfoProto(name=name) for name in node.input],
            [onnx.ValueInfoProto(name=name) for name in node.output],
        )
        alone = helper.make_model(piece, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        fed = {name: values[name] for name in node.input}
        (made,) = ReferenceEvaluator(alone).run(None, fed)
        step = np.float32(np.abs(made).max() / 127)
        value = made if node.op_type == "Transpose" else np.round(made / step) * step
        values[node.output[0]] = value
        np.save(folder / f"{node.output[0]}.npy", value.astype(np.float32))
    return compare(CompareRequest(model, model.parent / "golden", model, folder))


def blamed(data: RunData) -> list[tuple[str, str]]:
    """The golden ops behind the origins, with their causes."""
    return [(each.golden[0].op, each.cause or "") for each in data.origins]


@pytest.mark.parametrize(("size", "is_lost"), [(2e-8, False), (2e-5, True)])
def test_what_float16_cannot_tell_from_zero_is_not_lost(tmp_path, size, is_lost) -> None:
    """Its least step is 6e-8: without a scaled loss gradients end there."""
    rng = np.random.default_rng(7)
    scale = np.where(np.arange(4) == 2, size, 5 * size).astype(np.float32).reshape(1, 4, 1, 1)
    weights = {"w": rng.standard_normal((4, 3, 1, 1)).astype(np.float32), "scale": scale}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Mul", ["c", "scale"], ["y"], name="mul"),
    ]
    model = saved(tmp_path / "m.onnx", nodes, "y", **weights)
    golden_dump(model)
    made = {path.name: np.load(path) for path in (tmp_path / "golden").glob("*.npy")}
    (tmp_path / "device").mkdir()
    for name, value in made.items():
        device = value.astype(np.float16)
        if np.abs(value).max() < 1e-2:
            device[:, 2] = 0.0
        np.save(tmp_path / "device" / name, device)
    data = compare(CompareRequest(model, tmp_path / "golden", model, tmp_path / "device"))
    assert [op for op, _ in blamed(data)] == ["mul"] * is_lost


@pytest.mark.parametrize("ranges", [(640.0, 0.2), (0.2, 640.0), (300.0, 0.4, 200.0)])
def test_one_scale_for_parts_of_unlike_ranges_is_named(
    tmp_path: Path, ranges: tuple[float, ...]
) -> None:
    data = against(head(tmp_path / "m.onnx", *ranges), StandIn.INT8)
    ((op, cause),) = blamed(data)
    assert op == "cat"
    assert cause.startswith("one step of ")
    assert "are all zero" in cause
    assert f"(input {ranges.index(min(ranges))})" in cause


def test_it_is_named_in_dumps_of_floats_that_show_the_scales(tmp_path: Path) -> None:
    data = in_floats_of_8_bits(head(tmp_path / "m.onnx", 640.0, 0.2))
    ((op, cause),) = blamed(data)
    assert op == "cat"
    assert "slices 4-7 of axis 1 (input 1) are all zero" in cause


def test_parts_of_like_ranges_are_healthy(tmp_path: Path) -> None:
    (tmp_path / "floats").mkdir()
    (tmp_path / "integers").mkdir()
    first = in_floats_of_8_bits(head(tmp_path / "floats" / "m.onnx", 10.0, 1.0))
    second = against(head(tmp_path / "integers" / "m.onnx", 10.0, 1.0), StandIn.INT8)
    assert not first.origins
    assert first.run.verdict in (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)
    assert not second.origins


def test_half_precision_that_cannot_hold_a_sum_is_named(tmp_path: Path) -> None:
    """The Sub is right: nothing was left for it. A dump without the Add names the group."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"], name="act"),
        helper.make_node("Add", ["s", "large"], ["sum"], name="add"),
        helper.make_node("Sub", ["sum", "large"], ["d"], name="sub"),
        helper.make_node("Mul", ["d", "two"], ["y"], name="mul"),
    ]
    weights = {"large": np.array([65503], np.float32), "two": np.array([2], np.float32)}
    model = saved(tmp_path / "m.onnx", nodes, "y", **weights)
    data = against(model, StandIn.FP16)
    ((op, cause),) = blamed(data)
    assert op == "add"
    assert "one step is 32 there" in cause
    device = next((tmp_path / "device").glob("*.onnx"))
    next((tmp_path / "device").glob("add.*.npy")).unlink()
    again = compare(CompareRequest(model, tmp_path / "golden", device, tmp_path / "device"))
    assert [op for op, _ in blamed(again)] == ["sub"]


def test_a_class_that_hardly_ever_comes_is_no_lost_part(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="classes"),
        helper.make_node("Sigmoid", ["c"], ["y"], name="scores"),
    ]
    weights = {
        "w": rng.standard_normal((4, 3, 1, 1)).astype(np.float32),
        "b": np.array([0, 1, -1, -9], np.float32),
    }
    data = against(saved(tmp_path / "m.onnx", nodes, "y", **weights), StandIn.INT8)
    assert not data.origins


VALUES = np.random.default_rng(1).uniform(0, 1, (1, 4, 6, 6))


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        (np.zeros_like(VALUES), [LostPart("one value")]),
        (np.minimum(VALUES, 0.3), [LostPart("cut off")]),
        (np.where(VALUES > 0.98, 2.0, 0.0), [LostPart("hardly more than two values")]),
        (np.where(np.arange(4).reshape(1, 4, 1, 1) == 2, 0.5, VALUES), None),
        (np.round(VALUES * 8) / 8, []),
        (VALUES, []),
    ],
)
def test_what_counts_as_lost(lost: Array, expected: list[LostPart] | None) -> None:
    slices = [LostPart("one value each", 1, (2,))]
    assert list(lost_parts(lost, VALUES)) == (slices if expected is None else expected)


def test_what_is_constant_in_golden_is_not_lost() -> None:
    golden = VALUES.copy()
    golden[:, 1] = 0.25
    device = golden + 0.001
    assert not list(lost_parts(device, golden, (1, [1, 3])))
