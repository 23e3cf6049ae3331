"""Finding ops by what a person remembers of them."""

from __future__ import annotations

from graphstore.cypher.op_search import OpIndex

NAMES = (
    "LeNet/conv1/Conv2D",
    "LeNet/conv1/Relu",
    "LeNet/conv2/Conv2D",
    "conv",
    "softmax",
    "gradients/softmax_grad",
)
TYPES = ("Conv2D", "Relu", "Conv2D", "Identity", "SoftmaxV2", "SoftmaxGrad")
INDEX = OpIndex.of_columns(NAMES, NAMES, TYPES)


def test_an_exact_name_comes_first_whatever_its_case() -> None:
    assert INDEX.find("CONV", 9)[0] == "conv"
    assert INDEX.find("lenet/CONV1/relu", 9) == ["LeNet/conv1/Relu"]


def test_types_and_parts_are_found_in_topo_order() -> None:
    assert INDEX.find("Conv2D", 9) == ["LeNet/conv1/Conv2D", "LeNet/conv2/Conv2D"]
    assert INDEX.find("softmax", 9) == ["softmax", "gradients/softmax_grad"]
    assert INDEX.find("conv", 2) == ["conv", "LeNet/conv1/Conv2D"]


def test_a_slip_of_the_finger_still_finds() -> None:
    assert INDEX.find("sofmax", 1) == ["softmax"]
    assert INDEX.find("LeNet/cnov2/Conv2D", 1) == ["LeNet/conv2/Conv2D"]


def test_nothing_like_it_finds_nothing() -> None:
    assert INDEX.find("zzzzqqqq", 9) == []
    assert INDEX.find("  ", 9) == []
    assert INDEX.find("conv", 0) == []
