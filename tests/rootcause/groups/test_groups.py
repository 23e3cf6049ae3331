"""Groups: what lies between measured tensors, and what cannot be run again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from divergraph.rootcause.groups.group_state import GroupState
from divergraph.rootcause.groups.groups import Feed, GroupCutter
from divergraph.rootcause.groups.loop_state import unchanged
from divergraph.rootcause.groups.op_graph import OpGraph, Source, source_of
from graphstore.model import (
    DType,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Subgraph,
    Tensor,
    TensorRef,
)


def op(name: str, kind: str, *inputs: str, outputs: int = 1, **more) -> Op:
    """An op; inputs are ``op``, ``op:1``, or names of what no op makes (``=w``)."""
    refs = []
    for text in inputs:
        if text.startswith("="):
            refs.append(InputRef(text[1:]))
            continue
        maker, _, port = text.partition(":")
        refs.append(InputRef(text, TensorRef(maker, int(port or 0))))
    made = tuple(Tensor(name if port == 0 else f"{name}:{port}") for port in range(outputs))
    return Op(name, name, kind, tuple(refs), outputs=made, **more)


def graph(*ops: Op, inputs: tuple[str, ...] = ("x",), subgraphs=()) -> ModelGraph:
    """A golden or device graph."""
    return ModelGraph(
        "g",
        GraphKind.ORIGINAL,
        Framework.ONNX,
        "onnx",
        ops,
        subgraphs,
        tuple(Tensor(name) for name in inputs),
    )


def grouping(golden: ModelGraph, device: ModelGraph, measured: dict[str, str], dumped=()):
    """Cuts groups; *measured* says which golden op each device op stands for."""
    pairs = {TensorRef(here, 0): TensorRef(there, 0) for here, there in measured.items()}
    known = frozenset(TensorRef(name, 0) for name in dumped)
    return GroupCutter(OpGraph(golden), OpGraph(device), pairs, known)


def test_a_group_goes_back_to_what_is_measured():
    chain = graph(op("a", "Conv", "=x", "=w"), op("b", "Relu", "a"), op("c", "Exp", "b"))
    cut = grouping(chain, chain, {"a": "a", "c": "c"})
    found = cut.group(TensorRef("c", 0))
    assert found.ops == ("b", "c")
    assert found.feeds == (Feed("a", TensorRef("a", 0), TensorRef("a", 0)),)
    first = cut.group(TensorRef("a", 0))
    assert first.ops == ("a",)
    assert first.feeds == (Feed("x"),)


def test_of_several_device_tensors_the_one_the_op_reads_is_fed():
    golden = graph(op("a", "Conv", "=x"), op("b", "Relu", "a"))
    device = graph(op("a", "Conv", "=x"), op("cast", "Cast", "a"), op("b", "Relu", "cast"))
    cut = grouping(golden, device, {"a": "a", "cast": "a", "b": "b"})
    assert cut.group(TensorRef("b", 0)).measured == (TensorRef("cast", 0),)
    assert cut.group(TensorRef("cast", 0)).is_passthrough == TensorRef("a", 0)


def test_what_a_fused_op_does_not_read_is_not_fed_to_it():
    # the device computes c from a by itself, though it keeps b for somebody else
    golden = graph(op("a", "Conv", "=x"), op("b", "Exp", "a"), op("c", "Log", "b"))
    device = graph(op("a", "Conv", "=x"), op("b", "Exp", "a"), op("c", "Fused", "a"))
    cut = grouping(golden, device, {"a": "a", "b": "b", "c": "c"})
    found = cut.group(TensorRef("c", 0))
    assert found.ops == ("b", "c")
    assert found.measured == (TensorRef("a", 0),)


def test_constants_belong_to_the_group_unnamed():
    golden = graph(op("k", "Constant"), op("t", "Transpose", "k"), op("m", "MatMul", "=x", "t"))
    found = grouping(golden, golden, {"k": "k", "m": "m"}).group(TensorRef("m", 0))
    assert found.ops == ("m",)
    assert found.feeds == (Feed("x"),)


def test_random_numbers_are_fed_never_drawn_again():
    golden = graph(op("r", "RandomUniform"), op("d", "Mul", "=x", "r"))
    assert source_of(golden.ops[0]) is Source.RANDOM
    unknown = grouping(golden, golden, {"d": "d"}).group(TensorRef("d", 0))
    assert "draws random numbers" in unknown.failure
    known = grouping(golden, golden, {"d": "d"}, dumped=("r",)).group(TensorRef("d", 0))
    assert Feed("r", golden=TensorRef("r", 0)) in known.feeds
    measured = grouping(golden, golden, {"r": "r", "d": "d"}, dumped=("r",))
    assert measured.group(TensorRef("d", 0)).measured == (TensorRef("r", 0),)
    assert measured.group(TensorRef("r", 0)).source is Source.RANDOM


def test_an_if_is_fed_what_its_bodies_take_from_around_them():
    golden = graph(
        op("a", "Exp", "=x"),
        op("cond", "Greater", "=x"),
        op("if", "If", "cond", owns=("then",)),
        op("inner", "Log", "a", subgraph="then"),
        subgraphs=(Subgraph("then", "if", "then_branch", (), ((0, TensorRef("inner", 0)),)),),
    )
    cut = grouping(golden, golden, {"a": "a", "cond": "cond", "if": "if", "inner": "inner"})
    assert set(cut.group(TensorRef("if", 0)).measured) == {
        TensorRef("a", 0),
        TensorRef("cond", 0),
    }
    assert "inside a body" in cut.group(TensorRef("inner", 0)).failure


def step(*ops: Op) -> GroupCutter:
    """All outputs of a TensorFlow step are measured."""
    golden = replace(graph(*ops), framework=Framework.TENSORFLOW)
    measured = {TensorRef(each.id, 0): TensorRef(each.id, 0) for each in ops}
    return GroupCutter(OpGraph(golden), OpGraph(golden), measured, frozenset(measured))


def test_a_variable_read_behind_its_update_depends_on_what_the_update_took() -> None:
    cut = step(
        op("handle", "VarHandleOp"),
        op("change", "Mul", "=x"),
        op("update", "AssignSubVariableOp", "handle", "change"),
        op("done", "NoOp", control_inputs=("update",)),
        op("early", "ReadVariableOp", "handle"),
        op("late", "ReadVariableOp", "handle", control_inputs=("done",)),
    )
    assert [feed.tensor for feed in cut.group(TensorRef("early", 0)).feeds] == ["early"]
    late = cut.group(TensorRef("late", 0))
    assert late.ops == ("late",)
    assert TensorRef("change", 0) in late.measured


def test_a_variable_of_the_old_kind_taken_behind_its_update_is_no_ops_doing() -> None:
    """What ``read`` holds is the variable itself: the update changed it, whatever was dumped."""
    cut = step(
        op("w", "VariableV2"),
        op("read", "Identity", "w"),
        op("change", "Mul", "=x", "read"),
        op("update", "AssignSub", "w", "change"),
        op("average", "Sub", "read", "change", control_inputs=("update",)),
        op("again", "Identity", "w", control_inputs=("update",)),
        op("behind", "Neg", "update"),
    )
    for name in ("average", "again"):
        lost = cut.group(TensorRef(name, 0))
        assert lost.source is Source.LATE
        assert "the step has changed" in lost.failure
    for name in ("read", "change", "behind"):
        assert not cut.group(TensorRef(name, 0)).failure


def test_a_constant_of_a_branch_depends_on_what_decides_it() -> None:
    cut = step(
        op("pred", "Less", "=x"),
        op("switch", "Switch", "pred", "pred", outputs=2),
        op("no", "Identity", "switch"),
        op("yes", "Identity", "switch:1"),
        op("data", "Switch", "=x", "pred", outputs=2),
        op("done", "NoOp", "data", control_inputs=("no",)),
        op("zero", "Const", control_inputs=("done",)),
        op("value", "Neg", "data:1"),
        op("merge", "Merge", "zero", "value", outputs=2),
    )
    found = {ref.op for ref in cut.group(TensorRef("merge", 0)).measured}
    assert found == {"zero", "value"}
    assert {ref.op for ref in cut.group(TensorRef("zero", 0)).measured} == {"no"}


def test_what_hangs_on_variables_alone_is_made_anew_from_their_values() -> None:
    """Taken from the golden dump it would be right, whatever the device made of it."""
    golden = graph(
        op("w", "VariableV2"),
        op("power", "Pow", "w"),
        op("draw", "RandomUniform"),
        op("mask", "Floor", "draw"),
        op("y", "Mul", "=x", "power", "mask"),
    )
    dumped = frozenset({TensorRef("w", 0), TensorRef("power", 0), TensorRef("mask", 0)})
    sides = OpGraph(golden), OpGraph(golden)
    cut = GroupCutter(*sides, {TensorRef("y", 0): TensorRef("y", 0)}, dumped)
    found = cut.group(TensorRef("y", 0))
    assert found.ops == ("power", "y")
    assert {feed.tensor for feed in found.feeds} == {"x", "w", "mask"}


def test_floats_made_anew_are_not_asked_whether_they_equal_the_devices() -> None:
    """The gradient of a maximum does: where the device found it, is in the last bit."""

    def float_op(name: str, kind: str, *inputs: str) -> Op:
        return replace(op(name, kind, *inputs), outputs=(Tensor(name, DType.FLOAT32),))

    golden = graph(
        float_op("h", "Tanh", "=x"),
        float_op("most", "Max", "h"),
        op("there", "Equal", "h", "most"),
        op("mask", "Cast", "there"),
    )

    def asked(*measured: str) -> Source | None:
        given = {TensorRef(name, 0): TensorRef(name, 0) for name in (*measured, "mask")}
        cut = GroupCutter(OpGraph(golden), OpGraph(golden), given, frozenset())
        return cut.group(TensorRef("mask", 0)).source

    assert asked("most") is Source.EQUAL
    assert asked("h", "most") is None
    assert asked() is None


def test_ops_that_run_with_their_readers_are_walked_once():
    """Each reads the one before twice: 2**40 ways back. The first is fed back, as in a loop."""
    chain = [op("s0", "Enter", "=x", "s40")]
    chain += [op(f"s{n}", "SequenceMap", f"s{n - 1}", f"s{n - 1}") for n in range(1, 41)]
    golden = graph(*chain, op("y", "ConcatFromSequence", "s40"))
    group = grouping(golden, golden, {"y": "y"}).group(TensorRef("y", 0))
    state = GroupState(group, OpGraph(golden), {"x": np.ones(3)})
    while state.next_op().id != "y":
        state.take({}, failed=True)
    piece = state.piece("k", {})
    assert piece.inputs == ("x",)
    assert piece.outputs == ("y",)


def test_what_a_loop_hands_on_unchanged_is_made_by_nothing() -> None:
    """Its weight, which the body has as an input or hands on by Identity."""
    held = op("held", "Identity", "=weight", subgraph="turn")
    step = op("step", "Tanh", "=state", subgraph="turn")
    loop = op("loop", "Loop", "=x", outputs=3)
    body = Subgraph("turn", "loop", outputs=((0, TensorRef("step", 0)), (1, TensorRef("held", 0))))
    found = unchanged(graph(loop, held, step, subgraphs=(body,)))
    assert found == {TensorRef("loop", 1), TensorRef("loop", 2)}
