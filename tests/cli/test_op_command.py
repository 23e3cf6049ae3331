"""``divergraph op``: everything about one op, and the ops around it."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.thorough

FUSED = "LeNet/conv2/Conv2DRelu"


@pytest.fixture
def ask(divergraph, lenet_store):
    return lambda *arguments: divergraph("op", "fault", *arguments, "--store", lenet_store)


def test_state_tensors_and_originals_are_told(ask):
    said = ask(FUSED).out
    assert said.startswith(f"# {FUSED}  (Conv2D)\n")
    assert "introduces" in said
    assert "originals: LeNet/conv2/Conv2D, LeNet/conv2/BiasAdd, LeNet/conv2/Relu" in said
    assert "input  0  float16 NC1HWC0 2,1,14,14,16  <- LeNet/pool1/MaxPool:0" in said
    assert "device max 1.58301, min 0, mean 0.182559" in said
    assert "fusion_scope" not in said
    assert "fusion_scope: 41" in ask(FUSED, "--all").out


def test_the_ops_around_it_are_drawn(ask):
    said = ask(FUSED, "--depth", 2).out
    assert "|-- . LeNet/pool1/MaxPool  (MaxPool)\n|   `-- . LeNet/conv1/Conv2DRelu" in said
    assert "`-- v gradients/LeNet/conv2/Relu_grad/ReluGrad  (ReluGrad)  (above)" in said


def test_json_has_the_op_or_the_ops_around_it(ask):
    assert ask(FUSED, "--json").json["outputs"][0]["layout"] == "NC1HWC0"
    around = ask(FUSED, "--depth", 1, "--json").json
    distances = {each["op"]: each["distance"] for each in around["ops"]}
    assert (distances["LeNet/pool1/MaxPool"], distances[FUSED]) == (-1, 0)
    assert distances["LeNet/pool2/MaxPool"] == 1
    assert around["left_out"] == 0


def test_an_original_is_found_on_its_side(ask):
    assert ask("LeNet/conv2/BiasAdd", "--side", "golden").code == 0
    said = ask("LeNet/conv2/BiasAdd").err
    assert "it is an op of the golden graph; here it is in LeNet/conv2/Conv2DRelu" in said
    missed = ask("LeNet/conv2/Conv2DRule")
    assert (missed.code, missed.err.count("\n")) == (2, 1)


def test_a_graph_without_a_run_is_asked_too(divergraph, lenet, tmp_path):
    at = ("--store", tmp_path / "store")
    divergraph("import", lenet / "model.ckpt.meta", "--name", "net", *at)
    said = divergraph("op", "net", "LeNet/conv2/BiasAdd", "--depth", 1, *at).out
    assert said.startswith("o LeNet/conv2/BiasAdd  (BiasAdd)\n")
    assert "o LeNet/conv2/Relu  (Relu)" in said
