"""Ops of TensorFlow models alone, on values that are given: here those of a golden dump."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from divergraph.execute.contract import Array, Executor, RunnableSubgraph, SubgraphResult
from divergraph.execute.installed import open_executor
from graphstore.model import ModelGraph, TensorIO
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.dumps.read import read_array
from importers.registry import read_graph

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def step(lenet: Path) -> ModelGraph:
    return read_graph(lenet / "model.ckpt.meta")


@pytest.fixture(scope="module")
def golden(lenet: Path, step: ModelGraph) -> dict[str, Array]:
    """The dumped tensors by name."""
    ops = {op.id: op for op in step.ops}
    index = scan_golden_dumps(lenet / "golden", step)
    return {
        ops[op].outputs[port].name: read_array(ref)
        for (op, io, port), ref in index.tensors.items()
        if io is TensorIO.OUTPUT
    }


@pytest.fixture(scope="module")
def executor(lenet: Path, step: ModelGraph) -> Iterator[Executor]:
    opened = open_executor(lenet / "model.ckpt.meta", step, engine="tensorflow")
    yield opened
    opened.close()


def alone(
    executor: Executor, values: Mapping[str, Array], *subgraphs: RunnableSubgraph
) -> list[SubgraphResult]:
    found = executor.run_subgraphs(
        subgraphs, lambda subgraph: {name: values[name] for name in subgraph.inputs}
    )
    return list(found)


def test_each_op_of_a_training_step_gives_what_was_dumped(
    executor: Executor, step: ModelGraph, golden: dict[str, Array]
) -> None:
    subgraphs = [
        RunnableSubgraph(
            op.id,
            tuple({ref.tensor for ref in op.inputs if ref and ref.tensor in golden}),
            tuple(tensor.name for tensor in op.outputs),
        )
        for op in step.ops
        if op.outputs and all(tensor.name in golden for tensor in op.outputs)
    ]
    results = alone(executor, golden, *subgraphs)
    # The iterator cannot run without the data set it stands in.
    assert [each.key for each in results if each.failure] == ["IteratorGetNext"]
    assert len(results) > 140
    for result in results:
        for name, value in result.values.items():
            # In which order a sum of many is added up, a processor decides.
            least = 1e-6 * float(np.abs(golden[name]).max(initial=0))
            np.testing.assert_allclose(value, golden[name], rtol=1e-6, atol=least, err_msg=name)


def test_a_group_of_ops_with_variables_nobody_gave(
    executor: Executor, golden: dict[str, Array]
) -> None:
    group = RunnableSubgraph("conv2", ("LeNet/pool1/MaxPool:0",), ("LeNet/conv2/Relu:0",))
    result = alone(executor, golden, group)[0]
    # Threads add up a convolution in another order.
    np.testing.assert_allclose(
        result.values["LeNet/conv2/Relu:0"], golden["LeNet/conv2/Relu:0"], rtol=1e-4, atol=1e-6
    )


def test_inputs_of_a_device_are_taken_in_its_own_precision(
    executor: Executor, golden: dict[str, Array]
) -> None:
    half = {name: value.astype(np.float16) for name, value in golden.items()}
    subgraph = RunnableSubgraph("relu", ("LeNet/conv2/BiasAdd:0",), ("LeNet/conv2/Relu:0",))
    made = alone(executor, half, subgraph)[0].values["LeNet/conv2/Relu:0"]
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, np.maximum(half["LeNet/conv2/BiasAdd:0"], 0))


def test_an_update_on_values_that_are_given(executor: Executor, step: ModelGraph) -> None:
    ones = np.ones(6, np.float32)
    name = "train_op/update_LeNet/conv1/bias/ApplyMomentum"
    op = next(op for op in step.ops if op.name == name)
    taken = tuple(ref.tensor for ref in op.inputs if ref)
    # variable, accumulator, learning rate, gradient, momentum
    given = (5 * ones, 2 * ones, np.float32(0.5), ones, np.float32(0.25))
    values = dict(zip(taken, given, strict=True))
    result = alone(executor, values, RunnableSubgraph("update", taken, (f"{name}:0",)))[0]
    # momentum: 0.25 * 2 + 1, then 5 - 0.5 * 1.5
    np.testing.assert_array_equal(result.values[f"{name}:0"], 4.25 * ones)


def test_what_does_not_run_is_said_and_the_rest_runs(
    executor: Executor, golden: dict[str, Array]
) -> None:
    wrong = dict(golden) | {"LeNet/fc3/Relu:0": np.zeros((2, 7), np.float32)}
    results = alone(
        executor,
        wrong,
        RunnableSubgraph("far", ("LeNet/conv1/Relu:0",), ("TensorSliceDataset:0",)),
        RunnableSubgraph("shape", ("LeNet/fc3/Relu:0",), ("LeNet/fc4/MatMul:0",)),
        RunnableSubgraph("unknown", (), ("nowhere:0",)),
        RunnableSubgraph("right", ("LeNet/conv2/BiasAdd:0",), ("LeNet/conv2/Relu:0",)),
    )
    found = {each.key: each for each in results}
    assert "needs 'images:0', which is not among its inputs" in found["far"].failure or (
        "needs 'labels:0'" in found["far"].failure
    )
    assert "Matrix size-incompatible" in found["shape"].failure
    assert "no tensor 'nowhere:0'" in found["unknown"].failure
    assert not found["right"].failure
    assert found["right"].values
