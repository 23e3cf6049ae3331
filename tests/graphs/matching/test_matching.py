"""Counterparts found without names: by values, by re-execution, by structure, by pins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from float32_device import KNOWN
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.execute.contract import Executor
from divergraph.execute.installed import open_executor
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.graphs.lineage import Lineage, link_graphs
from divergraph.graphs.matching import MatchSources, match_more, read_pins
from divergraph.values.closeness import best_reorder, reordered
from graphstore.errors import ConfigError
from graphstore.model import LineageRule, Reason, Reorder, TensorMatch, TensorRef
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.registry import read_graph


def net(*, broken: bool = False) -> onnx.ModelProto:
    """Two branches of convolutions, joined; *broken*: the second conv has other weights."""
    rng = np.random.default_rng(5)
    weights = {
        f"w{k}": (rng.standard_normal((8, 8, 3, 3)) / 8).astype(np.float32) for k in range(4)
    }
    if broken:
        weights["w1"] = weights["w1"][::-1] * -3
    around = [1, 1, 1, 1]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "conv0", pads=around),
        helper.make_node("Relu", ["a"], ["b"], "relu0"),
        helper.make_node("Conv", ["b", "w1"], ["c"], "conv1", pads=around),
        helper.make_node("Sigmoid", ["c"], ["d"], "sigmoid"),
        helper.make_node("Conv", ["d", "w2"], ["e"], "conv2", pads=around),
        helper.make_node("Conv", ["b", "w3"], ["f"], "conv3", pads=around),
        helper.make_node("Add", ["e", "f"], ["g"], "join"),
        helper.make_node("Tanh", ["g"], ["y"], "tanh"),
    ]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 12, 12])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    tensors = [numpy_helper.from_array(np.ascontiguousarray(w), n) for n, w in weights.items()]
    graph = helper.make_graph(nodes, "net", [image], [given], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def nameless(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with meaningless names inside."""
    kept = {"x", "y"} | {tensor.name for tensor in model.graph.initializer}
    for place, node in enumerate(model.graph.node):
        node.name = f"n{place}"
        for names in (node.input, node.output):
            for position, name in enumerate(names):
                names[position] = name if name in kept else f"hidden_{name}"
    return model


class Sides:
    """Both models on disk with their dumps, and what matching makes of them."""

    def __init__(self, folder: Path, device: onnx.ModelProto) -> None:
        self.folder = folder
        onnx.save_model(net(), str(folder / "golden.onnx"))
        onnx.save_model(device, str(folder / "device.onnx"))
        for side in ("golden", "device"):
            capture(CaptureRequest(folder / f"{side}.onnx", folder / side, seed=1))
        self.golden = read_graph(folder / "golden.onnx")
        self.device = read_graph(folder / "device.onnx")

    def matched(self, *, re_execution: bool = True, pins: str = "") -> Lineage:
        sources = MatchSources(
            scan_golden_dumps(self.folder / "golden", self.golden),
            scan_golden_dumps(self.folder / "device", self.device),
            lambda: (
                open_executor(self.folder / "golden.onnx", self.golden) if re_execution else None
            ),
        )
        if pins:
            (self.folder / "match.toml").write_text(pins, encoding="utf-8")
            chosen = read_pins(self.folder / "match.toml", self.golden, self.device)
            sources = MatchSources(
                sources.golden_dump, sources.device_dump, sources.open_executor, chosen
            )
        return match_more(link_graphs(self.golden, self.device), self.device, sources)

    def executor(self) -> Executor:
        return open_executor(self.folder / "golden.onnx", self.golden)

    def request(self) -> CompareRequest:
        at = self.folder
        golden, device = (at / "golden.onnx", at / "golden"), (at / "device.onnx", at / "device")
        return CompareRequest(*golden, *device, root_cause=KNOWN)


TRUE = {
    "n0": "conv0",
    "n1": "relu0",
    "n2": "conv1",
    "n3": "sigmoid",
    "n4": "conv2",
    "n5": "conv3",
    "n6": "join",
    "n7": "tanh",
}


def found(lineage: Lineage) -> dict[str, str]:
    return {
        ref.op: match.golden.op
        for ref, match in lineage.outputs.items()
        if isinstance(match, TensorMatch)
    }


def rule(lineage: Lineage, op: str) -> LineageRule:
    match = lineage.outputs[TensorRef(op, 0)]
    assert isinstance(match, TensorMatch), match
    return match.rule


def test_names_are_enough_where_there_are_names(tmp_path: Path) -> None:
    lineage = Sides(tmp_path, net()).matched()
    assert {rule(lineage, op) for op in TRUE.values()} == {LineageRule.SAME_TENSOR}


def test_equal_values_find_every_tensor_of_a_nameless_graph(tmp_path: Path) -> None:
    lineage = Sides(tmp_path, nameless(net())).matched(re_execution=False)
    assert found(lineage) == TRUE
    assert rule(lineage, "n3") is LineageRule.SAME_VALUES


def test_behind_a_fault_originals_are_run_on_the_devices_inputs(tmp_path: Path) -> None:
    lineage = Sides(tmp_path, nameless(net(broken=True))).matched()
    assert found(lineage) == TRUE
    assert rule(lineage, "n1") is LineageRule.SAME_VALUES
    assert rule(lineage, "n2") is LineageRule.RE_EXECUTED, "what follows fits no other"
    assert rule(lineage, "n3") is LineageRule.RE_EXECUTED
    assert rule(lineage, "n6") is LineageRule.RE_EXECUTED


def test_without_an_executor_the_fault_is_still_found_by_structure(tmp_path: Path) -> None:
    lineage = Sides(tmp_path, nameless(net(broken=True))).matched(re_execution=False)
    assert found(lineage).items() <= TRUE.items()
    assert found(lineage)["n2"] == "conv1"


def test_compare_names_the_culprit_of_a_nameless_graph_and_says_how(tmp_path: Path) -> None:
    data = compare(Sides(tmp_path, nameless(net(broken=True))).request())
    assert [origin.op for origin in data.origins] == ["n2"]
    (said,) = [text for text in data.run.warnings if "otherwise than by name" in text]
    assert "by re-running the original ops" in said
    assert {link.original for link in data.links if link.device == "n2"} == {"conv1"}


def test_other_orders_of_the_axes_are_undone(tmp_path: Path) -> None:
    device = nameless(net())
    graph = device.graph
    graph.node.append(
        helper.make_node("Transpose", ["hidden_d"], ["hidden_turned"], "turn", perm=[0, 2, 3, 1])
    )
    graph.output.append(helper.make_tensor_value_info("hidden_turned", TensorProto.FLOAT, None))
    sides = Sides(tmp_path, device)
    match = sides.matched().outputs[TensorRef("turn", 0)]
    assert isinstance(match, TensorMatch)
    assert match.golden.op == "sigmoid"
    assert match.reorder == Reorder(axes=(0, 3, 1, 2))
    data = compare(sides.request())
    (turned,) = [each for each in data.comparisons if each.op == "turn"]
    assert turned.metrics is not None
    assert turned.metrics.different == 0


def test_a_pin_has_the_last_word_and_a_forbidden_match_stays_away(tmp_path: Path) -> None:
    sides = Sides(tmp_path, nameless(net()))
    pins = '[pin]\n"hidden_c" = "d"\n[forbid]\n"hidden_f" = "f"\n"hidden_b" = "*"\n'
    lineage = sides.matched(pins=pins)
    assert rule(lineage, "n2") is LineageRule.PINNED
    assert found(lineage)["n2"] == "sigmoid"
    assert found(lineage).get("n5") != "conv3"
    assert "n1" not in found(lineage)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[pin]\n"nobody" = "d"\n', "the device graph has no tensor 'nobody'"),
        ('[pin]\n"hidden_c" = "nobody"\n', "the golden graph has no tensor 'nobody'"),
        ('[pin]\n"hidden_c" = 3\n', "is not a tensor name"),
        ("[pinn]\n", "unknown key 'pinn'"),
        ("pin = 3\n", "pin is not a table"),
        ("pin = = 3\n", "not readable as TOML"),
    ],
)
def test_a_wrong_match_file_is_said(tmp_path: Path, text: str, said: str) -> None:
    sides = Sides(tmp_path, nameless(net()))
    with pytest.raises(ConfigError, match=said):
        sides.matched(pins=text)


def test_weak_evidence_is_said_and_not_compared(tmp_path: Path) -> None:
    device = nameless(net())
    # 1 % off both of two golden tensors that hardly differ
    graph = device.graph
    golden = net()
    golden.graph.initializer.append(numpy_helper.from_array(np.array(0.0004, np.float32), "tiny"))
    golden.graph.node.append(helper.make_node("Add", ["c", "tiny"], ["c2"], "nudge"))
    golden.graph.output.append(helper.make_tensor_value_info("c2", TensorProto.FLOAT, None))
    graph.initializer.append(numpy_helper.from_array(np.array(1.01, np.float32), "gain"))
    graph.node.append(helper.make_node("Mul", ["hidden_c", "gain"], ["hidden_z"], "other"))
    graph.output.append(helper.make_tensor_value_info("hidden_z", TensorProto.FLOAT, None))
    sides = Sides(tmp_path, device)
    onnx.save_model(golden, str(tmp_path / "golden.onnx"))
    capture(CaptureRequest(tmp_path / "golden.onnx", tmp_path / "golden", seed=1, replace=True))
    data = compare(sides.request())
    (unsure,) = [each for each in data.comparisons if each.op == "other"]
    assert unsure.reason is Reason.LOW_CONFIDENCE
    assert "pin it to compare" in unsure.detail
    assert any("evidence is weak" in text for text in data.run.warnings)


@pytest.mark.parametrize(("channels", "block"), [(8, 8), (12, 8), (5, 4), (16, 16)])
def test_channel_blocks_are_undone(channels: int, block: int) -> None:
    golden = np.random.default_rng(0).standard_normal((2, channels, 3, 5)).astype(np.float32)
    padded = -(-channels // block) * block
    full = np.zeros((2, padded, 3, 5), np.float32)
    full[:, :channels] = golden
    blocked = full.reshape(2, padded // block, block, 3, 5).transpose(0, 1, 3, 4, 2)
    device = np.ascontiguousarray(blocked).reshape(2, padded, 3, 5)
    best = best_reorder(device, golden)
    assert best is not None
    assert best[1] == 0.0
    assert best[0].block == block
    value = reordered(device, best[0], golden.shape)
    assert value is not None
    np.testing.assert_array_equal(value, golden)


def reshaped_net(*, broken: bool = False) -> onnx.ModelProto:
    """An Unsqueeze in front of a Conv, whose tensor has the values of the model's first."""
    rng = np.random.default_rng(6)
    weight = rng.standard_normal((3, 1, 5)).astype(np.float32)
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], "exp"),
        helper.make_node("Unsqueeze", ["a", "axis"], ["b"], "unsqueeze"),
        helper.make_node("Conv", ["b", "w"], ["c"], "conv"),
        helper.make_node("Tanh", ["c"], ["y"], "tanh"),
    ]
    tensors = [
        numpy_helper.from_array(weight[::-1] * -3 if broken else weight, "w"),
        numpy_helper.from_array(np.array([1], np.int64), "axis"),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 40])
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [given], [end], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_fault_behind_a_reshaped_tensor_is_matched(tmp_path):
    onnx.save_model(reshaped_net(), str(tmp_path / "golden.onnx"))
    onnx.save_model(nameless(reshaped_net(broken=True)), str(tmp_path / "device.onnx"))
    for side in ("golden", "device"):
        capture(CaptureRequest(tmp_path / f"{side}.onnx", tmp_path / side, seed=1))
    golden, device = read_graph(tmp_path / "golden.onnx"), read_graph(tmp_path / "device.onnx")
    sources = MatchSources(
        scan_golden_dumps(tmp_path / "golden", golden),
        scan_golden_dumps(tmp_path / "device", device),
    )
    outputs = match_more(link_graphs(golden, device), device, sources).outputs
    found = {ref.op: match.golden.op for ref, match in outputs.items()}
    assert found == {"n0": "exp", "n1": "unsqueeze", "n2": "conv", "n3": "tanh"}
