"""Loops, branches and calls of TensorFlow models without TensorFlow: unrolled turn by turn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divergraph.execute.contract import RunnableSubgraph
from divergraph.execute.tensorflow.late_reads import LateRead, late_reads
from divergraph.execute.translate.tensorflow.factory import TranslatedTensorFlowFactory
from divergraph.execute.translate.tensorflow.late_values import with_late_values
from importers.registry import read_graph

FLOAT, INT, BOOL = "DT_FLOAT", "DT_INT32", "DT_BOOL"


def node(name: str, kind: str, *inputs: str, **attrs: str) -> str:
    said = "".join(f' attr {{ key: "{key}" value {{ {value} }} }}' for key, value in attrs.items())
    taken = "".join(f' input: "{each}"' for each in inputs)
    return f'name: "{name}" op: "{kind}"{taken}{said}'


def typed(name: str, kind: str, *inputs: str, T: str = FLOAT, **attrs: str) -> str:  # noqa: N803
    return node(name, kind, *inputs, T=f"type: {T}", **attrs)


def number(name: str, value: float, dtype: str = FLOAT, *inputs: str) -> str:
    field = {FLOAT: "float_val", INT: "int_val"}[dtype]
    tensor = f"tensor {{ dtype: {dtype} tensor_shape {{ }} {field}: {value} }}"
    return node(name, "Const", *inputs, dtype=f"type: {dtype}", value=tensor)


def model(path: Path, nodes: list[str], functions: list[str] | None = None) -> Path:
    library = "".join(f" function {{ {each} }}" for each in functions or ())
    path.write_text("".join(f"node {{ {each} }}\n" for each in nodes) + f"library {{{library} }}")
    return path


def run(path: Path, **feeds: Any) -> dict[str, Any]:
    executor = TranslatedTensorFlowFactory().open_with(path, read_graph(path), {})
    given = {f"{name}:0": np.asarray(value, np.float32) for name, value in feeds.items()}
    found = dict(executor.run(given))
    executor.close()
    return found


def entered(name: str, source: str, dtype: str = FLOAT, constant: str = "false") -> str:
    return typed(
        name, "Enter", source, T=dtype, frame_name='s: "turns"', is_constant=f"b: {constant}"
    )


# while x < limit: array.write(at, x); x, at = 2 x, at + 1
DOUBLING = [
    node("x", "Placeholder", dtype=f"type: {FLOAT}"),
    node("limit", "Placeholder", dtype=f"type: {FLOAT}"),
    number("first", 0, INT),
    number("none", 0, INT),
    node(
        *("array", "TensorArrayV3", "none"),
        dtype=f"type: {FLOAT}",
        element_shape="shape { }",
        dynamic_size="b: true",
    ),
    entered("x_in", "x"),
    entered("at_in", "first", INT),
    entered("flow_in", "array:1"),
    entered("limit_in", "limit", constant="true"),
    node("array_in", "Enter", "array", T="type: DT_RESOURCE", frame_name='s: "turns"'),
    typed("x_now", "Merge", "x_in", "x_next"),
    typed("at_now", "Merge", "at_in", "at_next", T=INT),
    typed("flow_now", "Merge", "flow_in", "flow_next"),
    typed("less", "Less", "x_now", "limit_in"),
    node("again", "LoopCond", "less"),
    typed("x_side", "Switch", "x_now", "again"),
    typed("at_side", "Switch", "at_now", "again", T=INT),
    typed("flow_side", "Switch", "flow_now", "again"),
    typed("x_body", "Identity", "x_side:1"),
    number("one", 1, INT, "^x_body"),
    node("write", "TensorArrayWriteV3", "array_in", "at_side:1", "x_body", "flow_side:1"),
    typed("doubled", "AddV2", "x_body", "x_body"),
    typed("counted", "AddV2", "at_side:1", "one", T=INT),
    typed("x_next", "NextIteration", "doubled"),
    typed("at_next", "NextIteration", "counted", T=INT),
    typed("flow_next", "NextIteration", "write"),
    typed("x_out", "Exit", "x_side"),
    typed("at_out", "Exit", "at_side", T=INT),
    typed("flow_out", "Exit", "flow_side"),
    number("begin", 0, INT),
    number("step", 1, INT),
    node("places", "Range", "begin", "at_out", "step", Tidx=f"type: {INT}"),
    node("all", "TensorArrayGatherV3", "array", "places", "flow_out", dtype=f"type: {FLOAT}"),
    typed("sum", "AddV2", "all", "x_out"),
]


def test_a_loop_makes_as_many_turns_as_its_values_say(tmp_path: Path) -> None:
    path = model(tmp_path / "net.pbtxt", DOUBLING)
    found = run(path, x=3, limit=20)
    assert found["x_out:0"] == 24
    assert found["at_out:0"] == 3
    np.testing.assert_array_equal(found["all:0"], [3, 6, 12])
    np.testing.assert_array_equal(found["sum:0"], [27, 30, 36])
    assert run(path, x=30, limit=20)["x_out:0"] == 30  # no turn at all


def test_what_is_in_a_loop_has_no_one_value(tmp_path: Path) -> None:
    path = model(tmp_path / "net.pbtxt", DOUBLING)
    executor = TranslatedTensorFlowFactory().open_with(path, read_graph(path), {})
    reasons = {each.tensor: each.reason for each in executor.unavailable}
    assert reasons["doubled:0"] == "computed again in each turn of a loop"
    assert "x_out:0" in executor.tensors


def test_a_piece_around_a_loop_runs(tmp_path: Path) -> None:
    path = model(tmp_path / "net.pbtxt", DOUBLING)
    executor = TranslatedTensorFlowFactory().open(path, read_graph(path))
    pieces = [
        RunnableSubgraph("whole", ("x:0", "limit:0"), ("sum:0",)),
        RunnableSubgraph("loop", ("x:0", "limit:0"), ("x_out:0", "at_out:0")),
        RunnableSubgraph("behind", ("x_out:0", "all:0"), ("sum:0",)),
    ]
    given = {
        name: np.array(value, np.float32)
        for name, value in {"x:0": 3, "limit:0": 20, "x_out:0": 1, "all:0": [1, 2]}.items()
    }
    results = executor.run_subgraphs(
        pieces, lambda piece: {name: given[name] for name in piece.inputs}
    )
    found = {each.key: (each.failure, each.values) for each in results}
    assert {failure for failure, _ in found.values()} == {""}
    np.testing.assert_array_equal(found["whole"][1]["sum:0"], [27, 30, 36])
    assert found["loop"][1]["at_out:0"] == 3
    np.testing.assert_array_equal(found["behind"][1]["sum:0"], [2, 3])


def test_what_only_counts_turns_needs_nothing_else(tmp_path: Path) -> None:
    changed = {
        "limit": node("limit", "Placeholder", dtype=f"type: {INT}"),
        "limit_in": entered("limit_in", "limit", INT, constant="true"),
        "less": typed("less", "Less", "at_now", "limit_in", T=INT),
    }
    nodes = [changed.get(each.split('"')[1], each) for each in DOUBLING]
    path = model(tmp_path / "net.pbtxt", nodes)
    graph = read_graph(path)
    factory = TranslatedTensorFlowFactory()
    assert factory.covers(graph, None)
    executor = factory.open(path, graph)
    given = {"limit:0": np.array(4, np.int32), "x:0": np.array(3, np.float32)}
    pieces = [
        RunnableSubgraph("count", ("limit:0",), ("at_out:0",)),
        RunnableSubgraph("rest", ("limit:0", "x:0"), ("at_out:0", "x_out:0")),
    ]
    found = {
        each.key: (each.failure, each.values)
        for each in executor.run_subgraphs(pieces, lambda p: {n: given[n] for n in p.inputs})
    }
    assert {failure for failure, _ in found.values()} == {""}
    assert found["count"][1]["at_out:0"] == found["rest"][1]["at_out:0"] == 4
    assert found["rest"][1]["x_out:0"] == 48


def function(name: str, takes: str, gives: str, nodes: list[str], **results: str) -> str:
    args = "".join(
        f' input_arg {{ name: "{each}" type: {FLOAT} }}' for each in takes.split()
    ) + "".join(f' output_arg {{ name: "{each}" type: {gives} }}' for each in results)
    inside = "".join(f" node_def {{ {each} }}" for each in nodes)
    ret = "".join(f' ret {{ key: "{key}" value: "{value}" }}' for key, value in results.items())
    return f'signature {{ name: "{name}"{args} }}{inside}{ret}'


# while a < limit: a, b = b, a + b
FIBONACCI = function(
    *("body", "a b limit", FLOAT, [typed("both", "AddV2", "a", "b")]),
    next="b",
    sum="both:z:0",
    same="limit",
)
BELOW = function("cond", "a b limit", BOOL, [typed("less", "Less", "a", "limit")], again="less:z:0")
CALLER = [
    *(node(name, "Placeholder", dtype=f"type: {FLOAT}") for name in ("a", "b", "limit")),
    node(
        *("loop", "StatelessWhile", "a", "b", "limit"),
        T="list { type: DT_FLOAT type: DT_FLOAT type: DT_FLOAT }",
        cond='func { name: "cond" }',
        body='func { name: "body" }',
    ),
    typed("found", "Neg", "loop:1"),
]


def test_a_loop_of_functions_hands_on_what_each_turn_gives(tmp_path: Path) -> None:
    path = model(tmp_path / "net.pbtxt", CALLER, [FIBONACCI, BELOW])
    found = run(path, a=1, b=1, limit=50)
    assert [found[f"loop:{port}"].item() for port in range(3)] == [55, 89, 50]
    assert found["found:0"] == -89


def test_a_loop_without_its_functions_is_not_covered(tmp_path: Path) -> None:
    factory = TranslatedTensorFlowFactory()
    whole = read_graph(model(tmp_path / "net.pbtxt", CALLER, [FIBONACCI, BELOW]))
    assert factory.covers(whole, None)
    part = read_graph(model(tmp_path / "part.pbtxt", CALLER, [BELOW]))
    assert not factory.covers(part, None)


def test_one_branch_of_two_is_taken(tmp_path: Path) -> None:
    twice = function("yes", "x", FLOAT, [typed("sum", "AddV2", "x", "x")], y="sum:z:0")
    same = function("no", "x", FLOAT, [], y="x")
    nodes = [
        *(node(name, "Placeholder", dtype=f"type: {FLOAT}") for name in ("x", "limit")),
        typed("less", "Less", "x", "limit"),
        node(
            *("if", "If", "less", "x"),
            Tcond=f"type: {BOOL}",
            Tin="list { type: DT_FLOAT }",
            Tout="list { type: DT_FLOAT }",
            then_branch='func { name: "yes" }',
            else_branch='func { name: "no" }',
        ),
        typed("y", "Neg", "if"),
    ]
    path = model(tmp_path / "net.pbtxt", nodes, [twice, same])
    assert run(path, x=3, limit=5)["y:0"] == -6
    assert run(path, x=7, limit=5)["y:0"] == -7


ONE = "dtype: DT_FLOAT tensor_shape { }"
LATE = [
    node("w", "VarHandleOp", dtype=f"type: {FLOAT}", shape="shape { }"),
    number("start", 2),
    node("w/Assign", "AssignVariableOp", "w", "start", dtype=f"type: {FLOAT}"),
    node("x", "Placeholder", dtype=f"type: {FLOAT}"),
    node("before", "ReadVariableOp", "w", dtype=f"type: {FLOAT}"),
    typed("change", "Mul", "before", "x"),
    node("add", "AssignAddVariableOp", "w", "change", dtype=f"type: {FLOAT}"),
    node("behind", "ReadVariableOp", "w", "^add", dtype=f"type: {FLOAT}"),
    typed("y", "Neg", "behind"),
]


def test_what_reads_a_variable_behind_its_change_gets_the_new_value(tmp_path: Path) -> None:
    path = model(tmp_path / "net.pbtxt", LATE)
    graph = read_graph(path)
    assert TranslatedTensorFlowFactory().covers(graph, {"train_op": "y"})
    executor = TranslatedTensorFlowFactory().open_with(path, graph, {"train_op": "y"})
    found = dict(executor.run({"x:0": np.float32(3)}))
    assert found["before:0"] == 2
    assert found["behind:0"] == 8
    assert found["y:0"] == -8
    assert all("\n" not in name for name in found)


def test_what_reads_a_variable_while_it_changes_cannot_be_told(tmp_path: Path) -> None:
    unordered = node("aside", "ReadVariableOp", "w", dtype=f"type: {FLOAT}")
    end = typed("end", "Neg", "aside", "^add")
    graph = read_graph(model(tmp_path / "net.pbtxt", [*LATE, unordered, end]))
    named = replace(graph, attrs={**graph.attrs, "collection train_op": ("end",)})
    found = late_reads(named)
    assert found["aside"] == LateRead(("add",), None, ordered=False)
    assert "before" not in found, "its value makes the change"
    assert found["behind"].taken is not None
    assert with_late_values(named)[1] == {"aside"}
    assert "aside" not in late_reads(graph), "without a step nothing says that both run"


def recurrent(path: Path, *, functions: bool) -> Path:
    """A step of training of a small LSTM over six turns, by TensorFlow's own gradients."""
    import tensorflow as tf

    v1 = tf.compat.v1
    (v1.enable_control_flow_v2 if functions else v1.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [4, 6, 3], name="x")
            rng = np.random.default_rng(1)
            kernel = v1.get_variable("w", initializer=rng.normal(0, 0.4, (8, 20)).astype("f4"))
            series = tf.TensorArray(tf.float32, 6).unstack(tf.transpose(x, [1, 0, 2]))

            def turn(at: Any, hidden: Any, cell: Any, made: Any) -> Any:
                joined = tf.matmul(tf.concat([series.read(at), hidden], 1), kernel)
                enters, new, keeps, shows = tf.split(joined, 4, axis=1)
                cell = tf.sigmoid(keeps + 1) * cell + tf.sigmoid(enters) * tf.tanh(new)
                hidden = tf.sigmoid(shows) * tf.tanh(cell)
                return at + 1, hidden, cell, made.write(at, hidden)

            start = [0, tf.zeros([4, 5]), tf.zeros([4, 5]), tf.TensorArray(tf.float32, 6)]
            _, last, _, made = v1.while_loop(lambda at, *_: at < 6, turn, start)
            loss = tf.reduce_mean(tf.square(last) + tf.reduce_mean(made.stack()), name="loss")
            graph.add_to_collection("train_op", v1.train.AdamOptimizer(0.1).minimize(loss))
            v1.train.export_meta_graph(str(path), graph=graph)
    finally:
        v1.enable_control_flow_v2()
    return path


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("functions", [False, True], ids=["frames", "functions"])
@pytest.mark.parametrize("memory", [1 << 30, 1 << 12], ids=["in one part", "in many parts"])
def test_a_training_step_of_a_recurrent_net_is_tensorflows(
    tmp_path: Path, functions: bool, memory: int
) -> None:
    from divergraph.execute.tensorflow.executor import TensorFlowFactory

    path = recurrent(tmp_path / "net.meta", functions=functions)
    graph = read_graph(path)
    feeds = {"x:0": np.random.default_rng(0).standard_normal((4, 6, 3)).astype(np.float32)}
    translated = TranslatedTensorFlowFactory().open_with(path, graph, {})
    found = dict(translated.run(feeds, memory=memory))
    expected = dict(TensorFlowFactory().open_with(path, graph, {}).run(feeds))
    compared = [name for name in expected if name in found and "gradients" in name]
    for name in compared:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)
    assert len(compared) > 10
    assert "loss:0" in found
