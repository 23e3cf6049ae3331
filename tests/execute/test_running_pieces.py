"""Single ops and groups run alone on given inputs: the exploded model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from divergraph.execute.contract import Array, Executor, RunnableSubgraph
from divergraph.execute.installed import open_executor
from importers.registry import read_graph

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

Made = Callable[..., Path]
Opened = Callable[[Path], Executor]


@pytest.fixture
def executor(make_model: Made, opened: Opened) -> Executor:
    """x -> n = -x -> m = n.w -> y = n + m."""
    return opened(
        make_model(
            helper.make_node("Neg", ["x"], ["n"]),
            helper.make_node("MatMul", ["n", "w"], ["m"]),
            helper.make_node("Add", ["n", "m"], ["y"]),
            weights={"w": np.full((4, 4), 0.5, np.float32)},
        )
    )


def test_an_op_runs_on_the_values_it_is_given_not_on_the_models(
    executor: Executor, x: Array
) -> None:
    ten = np.full_like(x, 10)
    subgraphs = [
        RunnableSubgraph("mul", ("n",), ("m",)),
        RunnableSubgraph("add", ("n", "m"), ("y",)),
    ]
    found = {
        each.key: each.values
        for each in executor.run_subgraphs(
            subgraphs, lambda subgraph: dict.fromkeys(subgraph.inputs, ten)
        )
    }
    np.testing.assert_array_equal(found["mul"]["m"], np.full_like(x, 20))
    np.testing.assert_array_equal(found["add"]["y"], np.full_like(x, 20))


def test_a_group_runs_through_its_inner_tensors(executor: Executor, x: Array) -> None:
    (found,) = executor.run_subgraphs([RunnableSubgraph("all", ("x",), ("y",))], lambda _: {"x": x})
    whole = dict(executor.run({"x": x}))
    np.testing.assert_array_equal(found.values["y"], whole["y"])


def test_a_weight_can_be_replaced_by_what_the_device_had(executor: Executor, x: Array) -> None:
    given = {"n": x, "w": np.zeros((4, 4), np.float32)}
    (found,) = executor.run_subgraphs(
        [RunnableSubgraph("mul", ("n", "w"), ("m",))], lambda _: given
    )
    np.testing.assert_array_equal(found.values["m"], np.zeros_like(x))


def test_values_of_the_device_are_cast_to_what_the_model_computes_in(
    executor: Executor, x: Array
) -> None:
    half = x.astype(np.float16)
    (found,) = executor.run_subgraphs(
        [RunnableSubgraph("mul", ("n",), ("m",))], lambda _: {"n": half}
    )
    assert found.values["m"].dtype == np.float32


def test_one_output_of_an_op_can_be_given_while_the_other_is_made(
    make_model: Made, opened: Opened, x: Array
) -> None:
    executor = opened(
        make_model(
            helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
            helper.make_node("Sub", ["a", "b"], ["y"]),
            weights={},
            opset=18,
        )
    )
    given = {"x": x, "a": np.zeros((2, 2), np.float32)}
    (found,) = executor.run_subgraphs([RunnableSubgraph("y", ("x", "a"), ("y",))], lambda _: given)
    assert not found.failure
    np.testing.assert_array_equal(found.values["y"], -x[:, 2:])


def test_numbers_without_axes_are_taken_for_tensors(make_model: Made, opened: Opened) -> None:
    """numpy makes plain numbers of arrays without axes that are computed with."""
    executor = opened(
        make_model(helper.make_node("Add", ["x", "c"], ["y"]), weights={"c": np.float32(0.5)})
    )
    given = {"x": np.ones((2, 4), np.float32), "c": np.float32(0.5) * 2}
    (found,) = executor.run_subgraphs([RunnableSubgraph("y", ("x", "c"), ("y",))], lambda _: given)
    assert not found.failure
    np.testing.assert_array_equal(found.values["y"], np.full((2, 4), 2))


def test_a_piece_that_cannot_run_does_not_stop_the_others(executor: Executor, x: Array) -> None:
    subgraphs = [
        RunnableSubgraph("fine", ("x",), ("n",)),
        RunnableSubgraph("needs x", (), ("n",)),
        RunnableSubgraph("wrong shape", ("n",), ("m",)),
        RunnableSubgraph("fine too", ("n", "m"), ("y",)),
    ]

    def values(subgraph: RunnableSubgraph) -> dict[str, Array]:
        if subgraph.key == "wrong shape":
            return {"n": np.zeros((2, 3), np.float32)}
        return dict.fromkeys(subgraph.inputs, x)

    found = {each.key: each for each in executor.run_subgraphs(subgraphs, values)}
    assert not found["fine"].failure
    assert not found["fine too"].failure
    assert "needs 'x'" in found["needs x"].failure
    assert "ONNX Runtime" in found["wrong shape"].failure


@pytest.mark.parametrize("memory", [1, 1 << 30])
def test_fed_with_golden_values_every_op_gives_the_golden_value(
    executor: Executor, x: Array, memory: int
) -> None:
    known = {"x": x, **dict(executor.run({"x": x}))}
    subgraphs = [
        RunnableSubgraph("n", ("x",), ("n",)),
        RunnableSubgraph("m", ("n",), ("m",)),
        RunnableSubgraph("y", ("n", "m"), ("y",)),
    ]
    found = executor.run_subgraphs(
        subgraphs, lambda subgraph: {name: known[name] for name in subgraph.inputs}, memory=memory
    )
    for each in found:
        np.testing.assert_array_equal(each.values[each.key], known[each.key])


def test_a_loop_is_one_op_with_what_it_takes_from_around_it(
    make_model: Made, opened: Opened, x: Array
) -> None:
    flag = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    count = helper.make_tensor_value_info("round", TensorProto.INT64, [])
    carried = helper.make_tensor_value_info("c", TensorProto.FLOAT, None)
    grown = helper.make_tensor_value_info("grown", TensorProto.FLOAT, None)
    on = helper.make_tensor_value_info("on", TensorProto.BOOL, [])
    body = helper.make_graph(
        [
            helper.make_node("Add", ["c", "n"], ["grown"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [count, flag, carried],
        [on, grown],
    )
    executor = opened(
        make_model(
            helper.make_node("Neg", ["x"], ["n"]),
            helper.make_node("Loop", ["three", "yes", "x"], ["y"], body=body),
            weights={"three": np.array(3), "yes": np.array(True)},
        )
    )
    ones = np.ones_like(x)
    (found,) = executor.run_subgraphs(
        [RunnableSubgraph("loop", ("x", "n"), ("y",))], lambda _: {"x": x, "n": ones}
    )
    np.testing.assert_array_equal(found.values["y"], x + 3)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "each_nth"),
    [
        pytest.param("aasist_bs1_ori", 1, marks=pytest.mark.exhaustive),
        pytest.param("aasist_bs1_qdq_int8", 1, marks=pytest.mark.exhaustive),
        ("aasist_bs1_qdq_int8", 7),
    ],
)
def test_a_real_model_explodes_without_a_bit_of_difference(
    shared_data: Path, name: str, each_nth: int
) -> None:
    path = shared_data / "onnx" / f"{name}.onnx"
    graph = read_graph(path)
    executor = open_executor(path, graph)
    audio = np.random.default_rng(0).standard_normal((1, 64600)).astype(np.float32)
    known = {"input": audio, **dict(executor.run({"input": audio}))}
    subgraphs = [
        RunnableSubgraph(
            op.id,
            tuple({ref.tensor: None for ref in op.inputs if ref and ref.tensor in known}),
            tuple(tensor.name for tensor in op.outputs if tensor.name in known),
        )
        for op in graph.ops[::each_nth]
    ]
    compared = 0
    for each in executor.run_subgraphs(
        subgraphs, lambda subgraph: {tensor: known[tensor] for tensor in subgraph.inputs}
    ):
        assert not each.failure, each
        for tensor, value in each.values.items():
            np.testing.assert_array_equal(value, known[tensor], err_msg=tensor)
            compared += 1
    assert compared == sum(len(subgraph.outputs) for subgraph in subgraphs)
    assert each_nth > 1 or compared == len(executor.tensors)
