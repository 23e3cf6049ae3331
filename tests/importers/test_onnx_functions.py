"""ONNX models with local functions: each call has the body of its function."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper, inliner
from onnx_nodes import OPSETS, function, model_of, node, value

from graphstore.model import EdgeKind, TensorRef

SCALED = function(
    "Scaled",
    "a factor",
    "b extra",
    [
        node("Abs", "a", "inner", "abs"),
        node("Mul", "inner factor", "b", "mul"),
        node("Neg", "a", "extra", "neg"),
    ],
)


def test_each_call_of_a_local_function_has_a_body_of_its_own(read_onnx):
    calls = [
        node("Scaled", "x x", "h unused", "one", domain="mine"),
        node("Scaled", "h x", "k y", "two", domain="mine"),
    ]
    graph = read_onnx(model_of(calls, [SCALED]))
    assert [op.id for op in graph.ops] == [
        *("one", "two"),
        *("one/function/abs", "one/function/mul", "one/function/neg"),
        *("two/function/abs", "two/function/mul", "two/function/neg"),
    ]
    first, second = graph.subgraphs
    assert (first.name, first.owner, first.role) == ("one/function", "one", "function")
    assert second.inputs == (
        (0, "two/function/abs"),
        (0, "two/function/neg"),
        (1, "two/function/mul"),
    )
    assert second.outputs == (
        (0, TensorRef("two/function/mul", 0)),
        (1, TensorRef("two/function/neg", 0)),
    )
    calls = {(e.source, e.target) for e in graph.edges() if e.kind is EdgeKind.CALL}
    assert ("one/function/mul", "two") in calls
    assert ("one", "two/function/abs") in calls
    assert graph.warnings == ()


def test_functions_in_functions_hold_what_the_inliner_makes_of_them(read_onnx):
    outer = function(
        "Outer",
        "a",
        "c",
        [
            node("Scaled", "a a", "m n", "inner", domain="mine"),
            node("Add", "m n", "c", "add"),
        ],
    )
    model = model_of([node("Outer", "x", "y", "top", domain="mine")], [outer, SCALED])
    graph = read_onnx(model)
    owners = {body.owner for body in graph.subgraphs}
    leaves = sorted(op.type for op in graph.ops if op.id not in owners)
    assert leaves == sorted(
        node.op_type for node in inliner.inline_local_functions(model).graph.node
    )
    top = node("Outer", "h", "y", "top", domain="mine")
    graph = read_onnx(model_of([node("Abs", "x", "h", "before"), top], [outer, SCALED]))
    calls = {(e.source, e.target) for e in graph.edges() if e.kind is EdgeKind.CALL}
    assert ("before", "top/function/inner/function/abs") in calls  # handed on by Outer
    assert graph.op_index()["top/function/inner/function/mul"].subgraph == (
        "top/function/inner/function"
    )


def test_attributes_of_a_body_are_those_the_call_gives(read_onnx):
    reference = onnx.AttributeProto(name="alpha", type="FLOAT", ref_attr_name="slope")
    default = onnx.AttributeProto(name="axis", type="INT", ref_attr_name="side")
    leaky = node("LeakyRelu", "a", "h", "leaky")
    leaky.attribute.append(reference)
    soft = node("Softmax", "h", "b", "soft")
    soft.attribute.append(default)
    made = function(
        "F", "a", "b", [leaky, soft], ["slope"], attribute_protos=[helper.make_attribute("side", 1)]
    )
    graph = read_onnx(model_of([node("F", "x", "y", "call", domain="mine", slope=0.25)], [made]))
    ops = graph.op_index()
    assert ops["call/function/leaky"].attrs["alpha"] == 0.25
    assert ops["call/function/soft"].attrs["axis"] == 1
    graph = read_onnx(model_of([node("F", "x", "y", "call", domain="mine")], [made]))
    assert graph.op_index()["call/function/leaky"].attrs["alpha"] == "@slope"


def test_overloads_are_told_apart(read_onnx):
    one = function("F", "a", "b", [node("Abs", "a", "b", "abs")])
    two = function("F", "a", "b", [node("Neg", "a", "b", "neg")])
    two.overload = "second"
    call = node("F", "x", "y", "call", domain="mine")
    call.overload = "second"
    graph = read_onnx(model_of([call], [one, two]))
    assert [op.type for op in graph.ops] == ["F", "Neg"]
    assert graph.warnings == ("1 local function is called by nothing and was left out: mine::F",)


def test_a_branch_in_a_function_sees_its_tensors_and_attributes(read_onnx):
    branches = {
        f"{way}_branch": helper.make_graph(
            [node("Mul", "a a", f"{way}_out", way)], way, [], [value(f"{way}_out")]
        )
        for way in ("then", "else")
    }
    made = function("F", "a flag", "b", [node("If", "flag", "b", "choose", **branches)])
    graph = helper.make_graph(
        [node("F", "x flag", "y", "call", domain="mine")],
        "net",
        [value("x"), value("flag", (), TensorProto.BOOL)],
        [value("y")],
    )
    read_ = read_onnx(helper.make_model(graph, functions=[made], opset_imports=OPSETS))
    body = next(body for body in read_.subgraphs if body.name == "call/function")
    assert (0, "call/function/choose/then_branch/then") in body.inputs


def test_functions_that_call_themselves_are_told(read_onnx):
    one = function("A", "a", "b", [node("B", "a", "b", "to_b", domain="mine")])
    two = function("B", "a", "b", [node("A", "a", "b", "to_a", domain="mine")])
    graph = read_onnx(model_of([node("A", "x", "y", "top", domain="mine")], [one, two]))
    assert len(graph.ops) == 3
    assert any("inside itself" in told for told in graph.warnings)


def test_functions_that_would_grow_without_end_are_bounded(read_onnx, monkeypatch):
    monkeypatch.setattr("importers.names.MAX_BODY_OPS", 2_000)
    functions = [
        function(
            f"F{level}",
            "a",
            "b",
            [
                node(f"F{level + 1}", "a", "h", domain="mine"),
                node(f"F{level + 1}", "h", "b", domain="mine"),
            ],
        )
        for level in range(40)
    ]
    calls = [node("F0", "x", "h", domain="mine"), node("Abs", "h", "y")]
    graph = read_onnx(model_of(calls, functions))
    assert 1_000 < len(graph.ops) <= 2_002
    assert any("there are too many" in told for told in graph.warnings)
    assert any("no end, or one far away" in told for told in graph.warnings)
