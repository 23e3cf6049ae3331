"""ONNX models with bodies: branches and loops see what is around them."""

from __future__ import annotations

from onnx import TensorProto, helper
from onnx_nodes import branch, node, value

from graphstore.model import EdgeKind, InputRef, TensorRef


def test_branches_of_an_if_see_what_is_around_them(onnx_graph):
    graph = onnx_graph(
        [
            node("Abs", "x", "a", "abs"),
            node(
                "If",
                "cond",
                "y",
                "if",
                then_branch=branch("t", "a", 1),
                else_branch=branch("e", "x", 2),
            ),
            node("Relu", "y", "z", "relu"),
        ],
        [value("x"), value("cond", (), TensorProto.BOOL)],
        [value("z")],
    )
    ids = [op.id for op in graph.ops]
    # make_node sorts attributes by name: else_branch comes first.
    assert ids == [
        "abs",
        "if",
        "relu",
        "if/else_branch/Mul_0",
        "if/else_branch/neg",
        "if/then_branch/Mul_0",
        "if/then_branch/neg",
    ]
    by_id = graph.op_index()
    assert by_id["if"].owns == ("if/else_branch", "if/then_branch")
    assert "then_branch" not in by_id["if"].attrs
    assert by_id["if/then_branch/Mul_0"].inputs[0] == InputRef("a", TensorRef("abs", 0))
    assert by_id["if/else_branch/Mul_0"].inputs[0] == InputRef("x")
    constants = {constant.tensor.name for constant in graph.constants}
    assert constants == {"k", "if/then_branch/k"}
    assert by_id["if/then_branch/Mul_0"].inputs[1] == InputRef("if/then_branch/k")
    then = graph.subgraphs[1]
    assert (then.owner, then.role) == ("if", "then_branch")
    assert then.outputs == ((0, TensorRef("if/then_branch/neg", 0)),)
    calls = {(e.source, e.target) for e in graph.edges() if e.kind is EdgeKind.CALL}
    assert calls == {
        ("if/then_branch/neg", "relu"),
        ("if/else_branch/neg", "relu"),
        ("abs", "if"),  # captured by name: the If depends on it
    }


def test_what_enters_a_loop_reaches_its_readers(onnx_graph):
    body = helper.make_graph(
        [
            node("Identity", "go", "go_on", "again"),
            node("Add", "carried step", "next", "add"),
            node("Abs", "carried", "seen", "abs"),
        ],
        "body",
        [value("i", (), TensorProto.INT64), value("go", (), TensorProto.BOOL), value("carried")],
        [value("go_on", (), TensorProto.BOOL), value("next"), value("seen")],
    )
    graph = onnx_graph(
        [
            node("Neg", "x", "start", "neg"),
            node("Sqrt", "x", "step", "sqrt"),
            node("Loop", "n go0 start", "last all", "loop", body=body),
            node("Relu", "last", "y", "relu"),
            node("Relu", "all", "z", "relu2"),
        ],
        [value("x"), value("n", (), TensorProto.INT64), value("go0", (), TensorProto.BOOL)],
        [value("y"), value("z", None)],
    )
    (loop,) = graph.subgraphs
    assert loop.inputs == ((1, "loop/body/again"), (2, "loop/body/add"), (2, "loop/body/abs"))
    assert loop.outputs == ((0, TensorRef("loop/body/add", 0)), (1, TensorRef("loop/body/abs", 0)))
    edges = {(e.source, e.target, e.kind) for e in graph.edges()}
    assert ("neg", "loop/body/add", EdgeKind.CALL) in edges
    assert ("loop/body/abs", "relu2", EdgeKind.CALL) in edges
    assert ("sqrt", "loop/body/add", EdgeKind.DATA) in edges
    assert ("sqrt", "loop", EdgeKind.CALL) in edges


def test_bodies_inside_bodies(onnx_graph):
    inner = branch("t", "a", 1)
    outer = helper.make_graph(
        [node("If", "cond", "r", "inner", then_branch=inner, else_branch=branch("e", "a", 2))],
        "outer",
        [],
        [value("r")],
    )
    graph = onnx_graph(
        [
            node("Abs", "x", "a", "abs"),
            node("If", "cond", "y", "top", then_branch=outer, else_branch=branch("e", "a", 3)),
        ],
        [value("x"), value("cond", (), TensorProto.BOOL)],
        [value("y")],
    )
    name = "top/then_branch/inner/then_branch/Mul_0"
    assert graph.op_index()[name].inputs[0].producer == TensorRef("abs", 0)
    assert len(graph.subgraphs) == 4
