"""Another argument on the device, whether the call names it, counts it, or never says it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divergraph as dg
from graphstore.model import FindingKind, Verdict
from tests.made.exported_programs import exported, node, tensor
from tests.made.recorded_ranks import write_ranks

Array = np.ndarray[Any, Any]
DRAW = np.random.default_rng(4)
X = (DRAW.standard_normal((6, 16)) * DRAW.uniform(0.05, 1.0, (6, 1))).astype(np.float32)


def layer_norm(eps: float) -> Array:
    centred = X - X.mean(-1, keepdims=True)
    return (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)).astype(np.float32)


def softmax(axis: int) -> Array:
    shares = np.exp(X - X.max(axis, keepdims=True))
    return shares / shares.sum(axis, keepdims=True)


def averaged(*, with_pads: bool) -> Array:
    """Windows of three with a pad of one, of rows as channels of one image."""
    sums = np.stack([np.pad(X, ((0, 0), (1, 1)))[:, at : at + 16] for at in range(3)]).sum(0)
    counts = np.full(16, 3.0)
    counts[[0, -1]] = 3.0 if with_pads else 2.0
    return (sums / counts)[None]


def normalised(axis: int) -> Array:
    return X / np.linalg.norm(X, axis=axis, keepdims=True)


def recorded(step: Path, norm: str, arguments: list[Any], made: Array) -> Path:
    x = X.reshape(made.shape)
    calls = [
        ("Functional.relu.0.forward", [x], {}, [np.maximum(x, 0)]),
        (norm, [x, *arguments], {}, [made]),
    ]
    return write_ranks(step, {0: calls}).parent


def cause(run: dg.Run) -> dg.Finding:
    assert run.verdict is Verdict.DIVERGED
    (found,) = (each for each in run.data.findings if each.kind is FindingKind.CAUSE)
    return found


@pytest.mark.parametrize(
    ("call", "arguments", "made", "label", "words"),
    [
        (
            "Functional.layer_norm.0.forward",
            [[16], None, None, 1e-5],
            (layer_norm(1e-5), layer_norm(2e-2)),
            "wrong_epsilon",
            "with eps 0.02 in place of 1e-05",
        ),
        (
            "Module.norm.LayerNorm.forward.0",
            [],
            (layer_norm(1e-5), layer_norm(2e-2)),
            "wrong_epsilon",
            "with eps 0.02 in place of 1e-05",
        ),
        (
            "Functional.normalize.0.forward",
            [],
            (normalised(1), normalised(0)),
            "wrong_axis",
            "with dim 0 in place of 1",
        ),
        (
            "Functional.softmax.0.forward",
            [-1],
            (softmax(1), softmax(0)),
            "wrong_axis",
            "with dim 0 in place of 1",
        ),
        (
            "Functional.avg_pool1d.0.forward",
            [3, 1, 1],
            (averaged(with_pads=True), averaged(with_pads=False)),
            "wrong_setting",
            "with count_include_pad False in place of True",
        ),
    ],
)
def test_of_a_recorded_call(
    tmp_path: Path,
    call: str,
    arguments: list[Any],
    made: tuple[Array, Array],
    label: str,
    words: str,
) -> None:
    sides = [
        recorded(tmp_path / side / "step0", call, arguments, own.astype(np.float32))
        for side, own in zip(("golden", "device"), made, strict=True)
    ]

    origin = cause(dg.compare(sides[0], sides[0], sides[1], sides[1]))

    assert origin.label == label
    assert words in origin.sentence


def test_of_an_exported_batch_norm(tmp_path: Path) -> None:
    """Were its variances larger all alike, that would be the same."""
    image = DRAW.standard_normal((2, 4, 5, 5)).astype(np.float32)
    spread = np.array([0.02, 0.1, 0.05, 0.4], np.float32)

    def normalised(eps: float) -> Mapping[str, Array]:
        return {"y": image / np.sqrt(spread + np.float32(eps)).reshape(1, 4, 1, 1)}

    names = {"running_mean": np.zeros(4, np.float32), "running_var": spread}
    inputs: dict[str, Any] = {name: tensor(f"p_norm_{name}") for name in names}
    net = exported(
        tmp_path / "net.pt2",
        [
            node(
                "batch_norm.default", "y", "norm", input=tensor("x"), **inputs,
                training={"as_bool": False}, momentum={"as_float": 0.1}, eps={"as_float": 1e-5},
            )
        ],
        {"x": image, **normalised(1e-5)},
        {f"norm.{name}": value for name, value in names.items()},
        ["x"],
        "y",
    )  # fmt: skip
    for side, eps in (("golden", 1e-5), ("device", 1e-2)):
        (tmp_path / side).mkdir()
        for name, values in {"x": image, **normalised(eps)}.items():
            np.save(tmp_path / side / f"{name}.npy", values)

    found = cause(dg.compare(net, tmp_path / "golden", net, tmp_path / "device"))

    assert found.label == "wrong_epsilon"
    assert "with eps 0.01 in place of 1e-05" in found.sentence
