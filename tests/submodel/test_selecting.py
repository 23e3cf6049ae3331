"""Choosing a part of a graph by its first and last ops."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergraph.submodel.select import Selector
from divergraph.submodel.selection import RefusalRule, SelectionRequest, TensorFacts
from graphstore.errors import InputError
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

F32 = DType.FLOAT32


def all_dumped(_: TensorRef | str) -> TensorFacts:
    """As if every tensor were dumped."""
    return TensorFacts(dumped=True)


DIAMOND = """
    a = Conv x
    b = Relu a
    c = Relu a
    d = Add b c
    e = Mul d y
    f = Relu e
    """


def test_all_that_lies_between(graph_of):
    part = Selector(graph_of(DIAMOND), all_dumped).between(["a"], ["d"])
    assert part.chosen == ("a", "b", "c", "d")
    assert [tensor.name for tensor in part.inputs] == ["x"]
    assert [(tensor.name, tensor.users) for tensor in part.outputs] == [("d", ("e",))]
    assert part.inputs[0].nbytes == 24
    assert not part.refused


def test_what_enters_behind_the_start_is_a_side_input(graph_of):
    part = Selector(graph_of(DIAMOND), all_dumped).between(["d"], ["f"])
    assert part.chosen == ("d", "e", "f")
    assert {tensor.name: tensor.side for tensor in part.inputs} == {
        "b": False,
        "c": False,
        "y": True,
    }
    assert "y enters at e from the side" in part.notes


def test_a_branch_alone_takes_the_other_as_input(graph_of):
    part = Selector(graph_of(DIAMOND), all_dumped).between(["b"], ["d"])
    assert part.chosen == ("b", "d")
    assert [tensor.name for tensor in part.inputs] == ["a", "c"]


def test_outputs_used_outside_on_request(graph_of):
    selector = Selector(graph_of(DIAMOND), all_dumped)
    assert [t.name for t in selector.between(["a"], ["b"]).outputs] == ["b"]
    every = selector.between(["a"], ["b"], SelectionRequest(all_outputs=True))
    assert [t.name for t in every.outputs] == ["a", "b"]


def test_an_end_above_the_start_is_turned_round(graph_of):
    (refusal,) = Selector(graph_of(DIAMOND), all_dumped).between(["f"], ["a"]).refused
    assert refusal.rule is RefusalRule.TURNED_ROUND
    assert (refusal.starts, refusal.ends) == (("a",), ("f",))


def test_unconnected_ops_are_told_where_they_part(graph_of):
    (refusal,) = Selector(graph_of(DIAMOND), all_dumped).between(["b"], ["c"]).refused
    assert refusal.rule is RefusalRule.NO_WAY
    assert refusal.sentence == "no path leads from b to c; both come from a"
    assert (refusal.starts, refusal.ends) == (("a",), ("c",))


def test_a_start_too_many_is_named(graph_of):
    (refusal,) = Selector(graph_of(DIAMOND), all_dumped).between(["a", "f"], ["d"]).refused
    assert refusal.rule is RefusalRule.TURNED_ROUND
    assert "d feeds f" in refusal.sentence


def test_unknown_ops_are_guessed(graph_of):
    with pytest.raises(InputError, match="no op 'conv'"):
        Selector(graph_of("conv1 = Conv x"), all_dumped).between(["conv"], ["conv1"])


def test_a_tensor_stands_for_the_op_that_makes_it(graph_of):
    graph = graph_of(DIAMOND)
    named = [
        replace(op, outputs=tuple(replace(each, name=f"{op.id}_out") for each in op.outputs))
        for op in graph.ops
    ]
    selector = Selector(replace(graph, ops=tuple(named)), all_dumped)
    assert selector.between(["b_out"], ["d"]).starts == ("b",)


def test_a_fused_op_is_not_cut(graph_of):
    groups = {"fused_bc": ("c", "d", "e")}
    selector = Selector(graph_of(DIAMOND), all_dumped)
    (refusal,) = selector.between(["a"], ["d"], SelectionRequest(groups=groups)).refused
    assert refusal.rule is RefusalRule.FUSED_CUT
    assert "fused_bc" in refusal.sentence
    assert refusal.ends == ("e",)
    whole = selector.between(["a"], ["d"], SelectionRequest(groups=groups, whole=True))
    assert whole.chosen == ("a", "b", "c", "d", "e")
    assert (whole.starts, whole.ends, whole.added) == (("a",), ("e",), ("e",))
    assert not whole.refused


def test_a_loop_is_taken_whole(graph_of):
    loop = graph_of(
        """
        enter = Enter x
        merge = Merge enter next
        body = Add merge merge
        next = NextIteration body
        exit = Exit merge
        """
    )
    selector = Selector(loop, all_dumped)
    (refusal,) = selector.between(["enter"], ["exit"], SelectionRequest()).refused or (None,)
    assert refusal is None or refusal.rule is RefusalRule.LOOP_CUT
    whole = selector.between(["enter"], ["exit"], SelectionRequest(whole=True))
    assert set(whole.chosen) == {"enter", "merge", "body", "next", "exit"}


def test_constants_that_are_ops_go_along(graph_of):
    part = Selector(
        graph_of(
            """
            k = Const
            kt = Transpose k
            a = Conv x
            b = MatMul a kt
            """
        ),
        all_dumped,
    ).between(["b"], ["b"])
    assert part.constants == ("k", "kt")
    assert [tensor.name for tensor in part.inputs] == ["a"]


def test_what_only_tells_shapes_is_frozen(graph_of):
    part = Selector(
        graph_of(
            """
            a = Relu x
            s = Shape a
            g = Gather s
            b = Conv a
            r = Reshape b g
            """
        ),
        all_dumped,
    ).between(["b"], ["r"])
    assert {tensor.name: tensor.frozen for tensor in part.inputs} == {"a": False, "g": True}


def test_an_input_that_was_not_dumped_is_refused_with_a_better_start(graph_of):
    def facts(key):
        return TensorFacts(dumped=key != TensorRef("d", 0))

    (refusal,) = Selector(graph_of(DIAMOND), facts).between(["e"], ["f"]).refused
    assert refusal.rule is RefusalRule.NO_DATA
    assert refusal.starts == ("d",)
    assert (
        not Selector(graph_of(DIAMOND), facts)
        .between(["e"], ["f"], SelectionRequest(data=False))
        .refused
    )


def test_a_tensor_of_unknown_shape_is_refused_unless_the_dump_knows_it(graph_of):
    loose = graph_of("a = Conv x")
    loose = ModelGraph(
        "g", loose.kind, loose.framework, "onnx", loose.ops, inputs=(Tensor("x", F32, None),)
    )
    (refusal,) = Selector(loose, all_dumped).between(["a"], ["a"]).refused
    assert refusal.rule is RefusalRule.NO_FORM
    assert "x has no known shape" in refusal.sentence
    known = Selector(loose, lambda _: TensorFacts(F32, (4,), dumped=True))
    assert not known.between(["a"], ["a"]).refused


def test_a_body_goes_whole():
    inner = Op("then/r", "r", "Relu", subgraph="then", outputs=(Tensor("r", F32, (1,)),))
    owner = Op("if", "if", "If", owns=("then",), outputs=(Tensor("i", F32, (1,)),))
    after = Op(
        "z", "z", "Relu", (InputRef("i", TensorRef("if", 0)),), outputs=(Tensor("z", F32, (1,)),)
    )
    nested = ModelGraph(
        "g",
        GraphKind.ORIGINAL,
        Framework.ONNX,
        "onnx",
        (owner, after, inner),
        (Subgraph("then", "if", outputs=((0, TensorRef("then/r", 0)),)),),
        outputs=(TensorRef("z", 0),),
    )
    (refusal,) = Selector(nested, all_dumped).between(["then/r"], ["z"]).refused
    assert refusal.rule is RefusalRule.BODY_CUT
    assert (refusal.starts, refusal.ends) == (("if",), ("z",))


@st.composite
def dags(draw):
    size = draw(st.integers(2, 14))
    lines = []
    for place in range(size):
        fed = draw(st.sets(st.integers(0, place - 1), max_size=3)) if place else set()
        lines.append(f"n{place} = Op " + (" ".join(f"n{one}" for one in sorted(fed)) or "x"))
    return "\n".join(lines)


@settings(max_examples=80, deadline=None)
@given(dags(), st.data())
def test_the_part_is_convex_and_its_boundary_closed(graph_of, text, data):
    made = graph_of(text)
    names = [op.id for op in made.ops]
    wanted = data.draw(st.sets(st.sampled_from(names), min_size=1, max_size=3))
    part = Selector(made, all_dumped).hull(wanted)
    whole = nx.DiGraph([(ref.producer.op, op.id) for op in made.ops for ref in op.inputs
                        if ref.producer])  # fmt: skip
    whole.add_nodes_from(names)
    chosen = set(part.chosen)
    assert wanted <= chosen
    for outside in set(names) - chosen:
        enters = nx.descendants(whole, outside) & chosen
        leaves = nx.ancestors(whole, outside) & chosen
        assert not (enters and leaves)
    fed = {t.ref.op if t.ref else t.name for t in part.inputs}
    for op in made.ops:
        if op.id in chosen:
            for ref in op.inputs:
                source = ref.producer.op if ref.producer else ref.tensor
                assert source in chosen or source in fed


def test_a_constant_of_a_fused_op_is_not_cut_off(graph_of):
    graph = graph_of("k = Const\na = Relu x\nb = Add a k\nc = Tanh b")
    selector = Selector(graph, all_dumped)
    fused = SelectionRequest({"fused": ("k", "b")}, data=False)
    assert not selector.between(["b"], ["c"], fused).refused


def test_drawn_numbers_are_no_constants(graph_of):
    graph = graph_of("k = Const\nr = RandomNormal k\nm = Mul r k\na = Relu x\nb = Add a m")
    part = Selector(graph, all_dumped).between(["a"], ["b"])
    assert [(tensor.name, tensor.frozen) for tensor in part.inputs] == [("x", False), ("m", False)]


def test_what_computes_nothing_is_refused_with_what_does(graph_of):
    graph = graph_of("x = Placeholder\na = Relu x\nb = NoOp a")
    ops = (*graph.ops[:2], replace(graph.ops[2], outputs=()))
    selector = Selector(replace(graph, ops=ops, outputs=()), all_dumped)
    (given,) = selector.between(["x"], ["x"]).refused
    assert (given.rule, given.starts, given.ends) == (RefusalRule.NOTHING, ("a",), ("a",))
    (last,) = selector.between(["a"], ["b"]).refused
    assert (last.rule, last.starts, last.ends) == (RefusalRule.NOTHING, ("a",), ("a",))
    assert "nothing comes out of b" in last.sentence


@settings(max_examples=60, deadline=None)
@given(dags(), st.data())
def test_what_is_offered_instead_may_be_cut(graph_of, text, data):
    made = graph_of(text)
    ids = [op.id for op in made.ops]
    dumped = data.draw(st.sets(st.sampled_from(ids)))

    def facts(key: TensorRef | str) -> TensorFacts:
        return TensorFacts(dumped=isinstance(key, str) or key.op in dumped)

    selector = Selector(made, facts)
    picked = st.lists(st.sampled_from(ids), min_size=1, max_size=2)
    for refused in selector.between(data.draw(picked), data.draw(picked)).refused:
        if refused.starts or refused.ends:
            assert not selector.between(refused.starts, refused.ends).refused
