"""Blame for training steps: errors added inside of a TensorFlow graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divergraph.execute.contract import Additive
from divergraph.execute.installed import open_executor
from divergraph.execute.tensorflow.files import tensorflow
from graphstore.errors import ExecutionError, InputError
from importers.registry import read_graph

pytestmark = pytest.mark.tensorflow
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
W = np.linspace(0, 1, 8, dtype=np.float32).reshape(4, 2)


@pytest.fixture
def step(tmp_path: Path) -> Path:
    """The gradient of a loss for a variable, whose value nothing but a dump knows."""
    tf = tensorflow()
    graph = tf.Graph()
    with graph.as_default():
        v1 = tf.compat.v1
        x = v1.placeholder("float32", [None, 4], "x")
        v1.placeholder("float32", [None], "unused")
        w = v1.get_variable("w", [4, 2], use_resource=False, initializer=v1.zeros_initializer())
        out = v1.nn.relu(v1.matmul(x, w, name="product"), name="out")
        loss = v1.reduce_sum(v1.square(out), name="loss")
        v1.argmax(out, axis=1, name="best")
        v1.gradients(loss, [out])
    tf.io.write_graph(graph, str(tmp_path), "step.pb", as_text=False)
    return tmp_path / "step.pb"


def test_what_is_added_changes_all_that_follows(step: Path) -> None:
    executor = open_executor(step, read_graph(step))
    assert isinstance(executor, Additive)
    tensors = ["product:0", "w/read:0", "best:0"]
    model = executor.with_additions({"x:0": X, "w/read:0": W}, tensors, ["loss:0", "out:0"])
    assert set(model.tensors) == {"product:0", "w/read:0"}  # whole numbers are not added to
    plain = np.maximum(X @ W, 0)
    np.testing.assert_allclose(model.run({})["out:0"], plain, rtol=1e-6)
    error = np.full((3, 2), 0.25, np.float32)
    both = model.run({"product:0": error, "w/read:0": np.ones((4, 2), np.float32)})
    wanted = np.maximum(X @ (W + 1) + 0.25, 0)
    np.testing.assert_allclose(both["out:0"], wanted, atol=1e-6)
    assert both["loss:0"] == pytest.approx((wanted**2).sum(), rel=1e-5)
    np.testing.assert_allclose(model.run({})["out:0"], plain, rtol=1e-6)
    executor.close()


def test_what_is_fed_inside_need_not_be_computed(step: Path) -> None:
    executor = open_executor(step, read_graph(step))
    assert isinstance(executor, Additive)
    product = X[:, :2]
    model = executor.with_additions({"product:0": product}, ["product:0"], ["product:0", "out:0"])
    made = model.run({"product:0": np.full((3, 2), 2, np.float32)})
    np.testing.assert_array_equal(made["product:0"], product + 2)
    np.testing.assert_array_equal(made["out:0"], np.maximum(product + 2, 0))
    with pytest.raises(ExecutionError, match="x:0"):
        executor.with_additions({"w/read:0": W}, [], ["out:0"])
    with pytest.raises(InputError, match="nowhere"):
        executor.with_additions({"x:0": X}, [], ["nowhere:0"])
    executor.close()


def test_a_training_step_is_blamed_for_its_gradients(
    lenet: Path, tmp_path: Path, divergraph: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIVERGRAPH_STORE", str(tmp_path / "store"))
    device = lenet / "npu_fault"
    sides = ("--golden", lenet / "model.ckpt.meta", "--golden-dump", lenet / "golden")
    there = ("--device", device / "graph", "--device-dump", device / "dump")
    assert divergraph("compare", *sides, *there, "--run", "step").code == 1
    names = tmp_path / "keep.cfg"
    found = divergraph("blame", "step", "--keep-dtype", names, "--json").json
    outputs = {each["tensor"]: each["error"] for each in found["outputs"]}
    assert outputs["gradients/AddN_9:0"] > 0.3
    assert found["unexplained"] < 0.01
    assert found["shares"][0]["op"] == "LeNet/conv2/Conv2DRelu"
    assert found["keep"][0]["op"] == "LeNet/conv2/Conv2DRelu"
    assert "LeNet/conv2/BiasAdd" in names.read_text().splitlines()
    one = divergraph("blame", "step", "--output", "gradients/AddN_9:0", "--json").json
    assert [each["tensor"] for each in one["outputs"]] == ["gradients/AddN_9:0"]
    refused = divergraph("blame", "step", "--output", "nothing:0")
    assert refused.code == 2
    assert "nothing:0" in refused.err
