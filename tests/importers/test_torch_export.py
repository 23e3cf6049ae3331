"""Exported programs of PyTorch, read and run without PyTorch."""

from __future__ import annotations

import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import divergraph as dg
from divergraph.execute.installed import open_executor
from graphstore.errors import ImportFormatError
from graphstore.model import Verdict
from importers.registry import read_graph
from tests.made.exported_programs import exported, node, tensor

DRAW = np.random.default_rng(5)
X = DRAW.standard_normal((4, 6)).astype(np.float32)
WEIGHT = np.asfortranarray(DRAW.standard_normal((8, 6)).astype(np.float32))
SCALE = DRAW.standard_normal(8).astype(np.float32)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """``norm(linear(x))``: the weight lies transposed in its storage."""
    made = np.zeros((4, 8), np.float32)
    nodes = [
        node("linear.default", "linear", "up", input=tensor("x"), weight=tensor("p_up_weight")),
        node(
            "layer_norm.default", "layer_norm", "norm", input=tensor("linear"),
            normalized_shape={"as_ints": [8]}, weight=tensor("p_norm_weight"),
            bias={"as_none": True}, eps={"as_float": 1e-5},
        ),
    ]  # fmt: skip
    weights = {"up.weight": WEIGHT, "norm.weight": SCALE}
    tensors = {"x": X, "linear": made, "layer_norm": made}
    return exported(tmp_path / "net.pt2", nodes, tensors, weights, ["x"], "layer_norm")


def values(path: Path, **feeds: np.ndarray) -> dict[str, np.ndarray]:
    graph = read_graph(path)
    with closing(open_executor(path, graph)) as executor:
        return dict(executor.run(feeds))


def test_operators_are_calls_in_their_modules(net: Path) -> None:
    graph = read_graph(net)
    assert [(op.name, op.type) for op in graph.ops] == [
        ("up/linear", "linear"),
        ("norm/layer_norm", "layer_norm"),
    ]
    assert graph.ops[1].attrs["input.eps"] == 1e-5
    assert [constant.tensor.name for constant in graph.constants] == ["up.weight", "norm.weight"]
    assert graph.ops[1].source(0) == graph.ops[0].makes[0]


def test_weights_are_read_as_their_strides_say(net: Path) -> None:
    expected = X @ WEIGHT.T
    assert np.allclose(values(net, x=X)["linear"], expected, rtol=1e-5, atol=1e-6)


def test_infinities_bodies_and_sizes_of_examples_are_read(tmp_path: Path) -> None:
    inner = {
        "inputs": [tensor("a")],
        "outputs": [tensor("exp")],
        "nodes": [node("exp.default", "exp", self=tensor("a"))],
        "tensor_values": {"a": {}, "exp": {"dtype": 7, "sizes": [{"as_int": 4}, {"as_int": 6}]}},
    }
    size = {"as_expr": {"expr_str": "s0", "hint": {"as_int": 2}}}
    nodes = [
        node("clamp.default", "clamp", self=tensor("x"), max={"as_float": "Infinity"}),
        {
            **node("torch.ops.higher_order.wrap_with_set_grad_enabled:", "grads"),
            "target": "torch.ops.higher_order.wrap_with_set_grad_enabled",
            "inputs": [
                {"name": "", "arg": {"as_bool": False}, "kind": 1},
                {"name": "", "arg": {"as_graph": {"name": "body", "graph": inner}}, "kind": 1},
                {"name": "", "arg": tensor("clamp"), "kind": 1},
            ],
        },
        node("view.default", "view", self=tensor("grads"),
             size={"as_sym_ints": [{"as_name": "s"}, {"as_int": -1}]}),
    ]  # fmt: skip
    shapes = {"x": X, "clamp": X, "grads": X, "view": X.reshape(2, 12)}
    path = exported(
        tmp_path / "net.pt2", nodes, shapes, {}, ["x"], "view",
        sizes={"s": size}, range_constraints={"s0": {}},
    )  # fmt: skip
    assert np.allclose(values(path, x=X)["view"], np.exp(X).reshape(2, 12), rtol=1e-5)
    assert "s0" in read_graph(path).warnings[0]


def test_a_dump_that_hooks_of_modules_wrote_is_judged(net: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    dg.capture(net, tmp_path / "golden", inputs={"x": tmp_path / "x.npy"})
    for name, factor in (("right", 1.0), ("wrong", 1.25)):
        up = values(net, x=X)["linear"]
        folder = tmp_path / name
        folder.mkdir()
        np.save(folder / "up.npy", up)
        np.save(folder / "norm.npy", values(net, x=X)["layer_norm"] * np.float32(factor))
        run = dg.compare(net, tmp_path / "golden", net, folder)
        if name == "right":
            assert run.verdict is Verdict.CLEAN
        else:
            assert [origin.origin.op for origin in run.origins] == ["norm/layer_norm"]
            run.submodel(["up/linear"], ["norm/layer_norm"], tmp_path / "part", check=True)


def test_what_is_no_such_archive_says_so(net: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.pt2"
    with zipfile.ZipFile(old, "w") as archive:
        archive.writestr("serialized_exported_program.json", "{}")
    with pytest.raises(ImportFormatError, match=r"before PyTorch 2\.8"):
        read_graph(old)
    cut = tmp_path / "cut.pt2"
    cut.write_bytes(net.read_bytes()[:-100])
    with pytest.raises(ImportFormatError, match="zip"):
        read_graph(cut)
    empty = exported(tmp_path / "empty.pt2", [], {}, {}, [], "nothing")
    with zipfile.ZipFile(empty, "a") as archive:
        archive.writestr("empty/models/other.json", "{}")
    with pytest.raises(ImportFormatError, match="2 programs"):
        read_graph(empty)
