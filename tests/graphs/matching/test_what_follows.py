"""Counterparts behind a fault without names: what follows from a wrong tensor tells what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from divergraph.execute.installed import open_executor
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.graphs.lineage import Lineage, Unmatched, link_graphs
from divergraph.graphs.matching import MatchSources, match_more
from graphstore.model import LineageRule, Reason, TensorMatch, TensorRef
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.registry import read_graph

node = helper.make_node
WIDE, HEADS, WORDS = 24, 3, 10


def written(
    path: Path,
    nodes: Sequence[NodeProto],
    weights: Mapping[str, np.ndarray],
    inputs: Mapping[str, Sequence[int]],
) -> Path:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(onnx.shape_inference.infer_shapes(model), str(path))
    return path


def nameless(model: Path) -> Path:
    """The same model with meaningless names of nodes and inner tensors."""
    proto = onnx.load(str(model))
    kept = {value.name for value in (*proto.graph.input, *proto.graph.output)}
    new: dict[str, str] = {}
    for place, each in enumerate(proto.graph.node):
        each.name = f"n{place}"
        new |= {name: f"t{place}_{k}" for k, name in enumerate(each.output) if name not in kept}
        for names in (each.input, each.output):
            for position, name in enumerate(names):
                names[position] = new.get(name, name)
    del proto.graph.value_info[:]
    target = model.with_suffix(".nameless.onnx")
    onnx.save_model(proto, str(target))
    return target


def optimised(model: Path) -> Path:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    target = model.with_suffix(".optimised.onnx")
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return target


def matched(golden: Path, device: Path) -> Lineage:
    """What matching makes of two models run on the same random inputs."""
    graphs, dumps = [], []
    for model in (golden, device):
        capture(CaptureRequest(model, model.with_suffix(".run"), seed=1))
        graphs.append(read_graph(model))
        dumps.append(scan_golden_dumps(model.with_suffix(".run"), graphs[-1]))
    sources = MatchSources(*dumps, lambda: open_executor(golden, graphs[0]))
    return match_more(link_graphs(*graphs), graphs[1], sources)


def found(lineage: Lineage) -> dict[str, str]:
    """By device op the golden op its first output was matched with."""
    return {
        ref.op: match.golden.op
        for ref, match in lineage.outputs.items()
        if isinstance(match, TensorMatch)
    }


def attention(path: Path, faulty: str = "") -> Path:
    """Attention as exporters write it; the weights *faulty* are far off in half their elements."""
    rng = np.random.default_rng(3)
    weights = {f"w{k}": rng.standard_normal((WIDE, WIDE)).astype(np.float32) / 4 for k in "qkvo"}
    weights |= {f"b{k}": rng.standard_normal(WIDE).astype(np.float32) for k in "qkvo"}
    weights["heads"] = np.array([0, 0, HEADS, WIDE // HEADS])
    weights["whole"] = np.array([0, 0, WIDE])
    if faulty:
        weights[faulty].reshape(-1)[::2] *= -3
    nodes = [node("Tanh", ["x"], ["t"], "start")]
    for k in "qkv":
        nodes += [
            node("MatMul", ["t", f"w{k}"], [f"m{k}"], f"mul_{k}"),
            node("Add", [f"m{k}", f"b{k}"], [f"a{k}"], f"add_{k}"),
            node("Reshape", [f"a{k}", "heads"], [f"r{k}"], f"cut_{k}"),
            node("Transpose", [f"r{k}"], [f"h{k}"], f"turn_{k}", perm=[0, 2, 1, 3]),
        ]
    nodes += [
        node("Transpose", ["hk"], ["kt"], "other", perm=[0, 1, 3, 2]),
        node("MatMul", ["hq", "kt"], ["s"], "scores"),
        node("Softmax", ["s"], ["p"], "softmax", axis=-1),
        node("MatMul", ["p", "hv"], ["z"], "seen"),
        node("Transpose", ["z"], ["zt"], "back", perm=[0, 2, 1, 3]),
        node("Reshape", ["zt", "whole"], ["zr"], "joined"),
        node("MatMul", ["zr", "wo"], ["mo"], "mul_o"),
        node("Add", ["mo", "bo"], ["ao"], "add_o"),
        node("Add", ["ao", "t"], ["y"], "sum"),
    ]
    return written(path, nodes, weights, {"x": [2, WORDS, WIDE]})


TRUE_PARTS = {"Gemm": {"add_q", "add_k", "add_v", "add_o"}, "Softmax": {"softmax"}}


@pytest.mark.parametrize("faulty", ["", "wq", "wk", "wv"])
def test_each_product_of_an_attention_is_found_when_one_is_wrong(tmp_path: Path, faulty) -> None:
    """Optimised, each is a Gemm of two axes between Reshapes, and all three read one tensor."""
    golden = attention(tmp_path / "golden.onnx")
    named = optimised(attention(tmp_path / "device.onnx", faulty))
    truth = {
        f"n{place}": each.name.partition("/")[0] for place, each in enumerate(read_graph(named).ops)
    }
    lineage = matched(golden, nameless(named))
    kinds = {each.id: each.type for each in lineage.device_ops.values()}
    assert not [ref for ref, each in lineage.outputs.items() if isinstance(each, Unmatched)]
    products = {op: original for op, original in found(lineage).items() if kinds[op] == "Gemm"}
    assert len(products) == 4, "else this version fuses no product and its bias"
    for op, original in products.items():
        assert original.removeprefix("add_").removeprefix("cut_") == truth[op][-1], truth[op]


def masked(path: Path, gain: float = 1.0) -> Path:
    """Products with a mask that is one everywhere: computed from an input, it tells nothing."""
    rng = np.random.default_rng(5)
    weights = {f"w{k}": rng.standard_normal((WIDE, WIDE)).astype(np.float32) / 4 for k in range(3)}
    weights["w0"] *= np.float32(gain)
    weights["low"] = np.float32(-100)
    nodes = [
        node("Greater", ["length", "low"], ["g"], "greater"),
        node("Cast", ["g"], ["mask"], "mask", to=TensorProto.FLOAT),
        node("MatMul", ["x", "w0"], ["a"], "first"),
        node("Mul", ["a", "mask"], ["b"], "hide"),
        node("MatMul", ["b", "w1"], ["c"], "second"),
        node("Mul", ["c", "mask"], ["d"], "hide_again"),
        node("Sigmoid", ["d"], ["e"], "sigmoid"),
        node("MatMul", ["e", "w2"], ["y"], "third"),
    ]
    return written(path, nodes, weights, {"x": [6, WIDE], "length": [6, 1]})


def test_a_mask_of_ones_does_not_stop_the_search(tmp_path: Path) -> None:
    golden = masked(tmp_path / "golden.onnx")
    lineage = matched(golden, nameless(masked(tmp_path / "device.onnx", gain=-3)))
    names = [each.name for each in read_graph(golden).ops]
    got = found(lineage)
    for place in (0, *range(3, 8)):
        assert got[f"n{place}"] in (names[place], "first" if place == 3 else names[place])


def scaled(path: Path, *, parts: bool) -> Path:
    """3 * Softplus(Tanh(x)); in *parts* Softplus and the product are several ops each, and the
    second part of the product has its name."""
    weights = {"one": np.float32(1), "half": np.float32(1.5), "two": np.float32(2)}
    weights["three"] = np.float32(3)
    start = node("Tanh", ["x"], ["t"], "tanh")
    if not parts:
        rest = [
            node("Softplus", ["t"], ["n"], "soft"),
            node("Mul", ["n", "three"], ["m"], "scale"),
        ]
    else:
        rest = [
            node("Exp", ["t"], ["e"], "soft__1"),
            node("Add", ["e", "one"], ["p"], "soft__2"),
            node("Log", ["p"], ["n"], "soft"),
            node("Mul", ["n", "half"], ["n__3"], "scale__3"),
            node("Mul", ["n__3", "two"], ["m"], "scale"),
        ]
    return written(path, [start, *rest, node("Neg", ["m"], ["y"], "neg")], weights, {"x": [6, 40]})


def test_values_decide_which_part_of_an_original_has_its_tensor(tmp_path: Path) -> None:
    """The readers alone say ``scale__3``, as it is what the op called ``scale`` reads."""
    golden = scaled(tmp_path / "golden.onnx", parts=False)
    lineage = matched(golden, scaled(tmp_path / "device.onnx", parts=True))
    got = found(lineage)
    assert (got["soft"], got["scale"], got["neg"]) == ("soft", "scale", "neg")
    inner = lineage.outputs[TensorRef("scale__3", 0)]
    assert isinstance(inner, Unmatched)
    assert inner.reason is Reason.UNMATCHED


def chosen(path: Path, *rows: int) -> Path:
    """Rows of a tensor, which are all that is read of it."""
    rng = np.random.default_rng(8)
    weights: dict[str, np.ndarray] = {"w": rng.standard_normal((WIDE, WIDE)).astype(np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["p"], "product")]
    for place, row in enumerate(rows):
        weights[f"row{place}"] = np.int64(row)
        nodes.append(node("Gather", ["p", f"row{place}"], [f"g{place}"], f"row_{row}"))
    nodes.append(node("Sum", [f"g{place}" for place in range(len(rows))], ["y"], "sum"))
    return written(path, nodes, weights, {"x": [50, WIDE]})


def test_a_gather_of_other_rows_is_not_matched_by_structure(tmp_path: Path) -> None:
    golden = chosen(tmp_path / "golden.onnx", 1, 40)
    lineage = matched(golden, nameless(chosen(tmp_path / "device.onnx", 1, 7)))
    assert found(lineage)["n1"] == "row_1"
    other = lineage.outputs[TensorRef("n2", 0)]
    assert isinstance(other, Unmatched)
    assert other.reason is Reason.LOW_CONFIDENCE
    assert LineageRule.SAME_STRUCTURE.value in other.detail


def test_what_no_rule_matches_says_so(tmp_path: Path) -> None:
    """Neither ``not in the golden graph`` nor ``inserted`` is known of it."""
    weights = {"shape": np.array([WIDE, 6]), "w": np.eye(WIDE, dtype=np.float32)}

    def net(path: Path, inner: Callable[[], list[NodeProto]]) -> Path:
        nodes = [*inner(), node("MatMul", ["r", "s"], ["y"], "last")]
        return written(path, nodes, weights, {"x": [6, WIDE]})

    golden = net(
        tmp_path / "golden.onnx",
        lambda: [node("Exp", ["x"], ["r"], "exp"), node("Transpose", ["x"], ["s"], "turn")],
    )
    device = net(
        tmp_path / "device.onnx",
        lambda: [
            node("Sin", ["x"], ["r"], "sine"),
            node("Cos", ["x"], ["c"], "cosine"),
            node("Reshape", ["c", "shape"], ["s"], "reshape"),
        ],
    )
    lineage = matched(golden, nameless(device))
    said = {ref.op: each for ref, each in lineage.outputs.items() if isinstance(each, Unmatched)}
    assert {said[op].reason for op in ("n0", "n1", "n2")} == {Reason.UNMATCHED}
    assert "no counterpart" in said["n2"].detail


def normalised(path: Path, *, folded: bool, gain: float = 1.0) -> Path:
    """A product, scaled and shifted; *folded* into the product, whose tensor keeps its name."""
    rng = np.random.default_rng(9)
    weight = rng.standard_normal((WIDE, WIDE)).astype(np.float32)
    scale = rng.uniform(0.5, 3, WIDE).astype(np.float32)
    weights = {"w": weight * np.float32(gain), "scale": scale}
    nodes = [node("MatMul", ["x", "w"], ["p"], "product")]
    if folded:
        weights["w"] = weights["w"] * scale
    else:
        nodes.append(node("Mul", ["p", "scale"], ["n"], "norm"))
    nodes.append(node("Tanh", ["p" if folded else "n"], ["y"], "tanh"))
    return written(path, nodes, weights, {"x": [50, WIDE]})


def test_a_tensor_with_the_values_of_the_op_put_into_its_own_is_that_ops(tmp_path: Path) -> None:
    golden = normalised(tmp_path / "golden.onnx", folded=False)
    device = normalised(tmp_path / "device.onnx", folded=True)
    assert found(matched(golden, device)) == {"product": "norm", "tanh": "tanh"}


def test_a_wrong_tensor_without_a_better_one_keeps_its_name(tmp_path: Path) -> None:
    golden = normalised(tmp_path / "golden.onnx", folded=False)
    device = normalised(tmp_path / "device.onnx", folded=False, gain=-3)
    assert found(matched(golden, device)) == {"product": "product", "norm": "norm", "tanh": "tanh"}


def test_a_constant_near_another_one_is_not_that_one(tmp_path: Path) -> None:
    """A converter that adds the epsilon to a variance in the graph."""
    variance = np.linspace(0.1, 2, WIDE).astype(np.float32)
    golden = written(
        tmp_path / "golden.onnx",
        [
            node("Constant", [], ["v"], "v", value=numpy_helper.from_array(variance)),
            node("Mul", ["x", "v"], ["y"], "product"),
        ],
        {},
        {"x": [5, WIDE]},
    )
    device = written(
        tmp_path / "device.onnx",
        [
            node("Add", ["other", "epsilon"], ["sum"], "added"),
            node("Mul", ["x", "sum"], ["y"], "product"),
        ],
        {"other": variance, "epsilon": np.float32(1e-4)},
        {"x": [5, WIDE]},
    )
    assert found(matched(golden, device)) == {"product": "product"}
