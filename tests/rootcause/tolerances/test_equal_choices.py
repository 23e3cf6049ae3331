"""The gradient of a maximum may go to any of several largest elements, and to none besides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from divergraph.comparison import CompareRequest, compare
from divergraph.execute.contract import Alterable, RunnableSubgraph
from divergraph.execute.installed import open_executor
from divergraph.rootcause.tolerances.equal_choices import EQUAL_ELEMENTS
from graphstore.model import Verdict
from importers.registry import read_graph

WINDOWS = [
    "ksize",
    "list { i: 1 i: 2 i: 2 i: 2 i: 1 }",
    "strides",
    "list { i: 1 i: 2 i: 2 i: 2 i: 1 }",
]
FEATURES = np.random.default_rng(3).standard_normal((1, 6, 6, 6, 2)).astype(np.float32).clip(0)
FEATURES[:, :4, :4, :4] = 0
GRADIENT = np.linspace(1, 2, 54, dtype=np.float32).reshape(1, 3, 3, 3, 2)


def node(name: str, kind: str, inputs: str = "", *attrs: str) -> str:
    said = {"T": "type: DT_FLOAT", "padding": 's: "SAME"'} | dict(
        zip(attrs[::2], attrs[1::2], strict=True)
    )
    taken = " ".join(f'input: "{each}"' for each in inputs.split())
    written = " ".join(f'attr {{ key: "{key}" value {{ {v} }} }}' for key, v in said.items())
    return f'node {{ name: "{name}" op: "{kind}" {taken} {written} }}\n'


def model(folder: Path) -> Path:
    path = folder / "pool.pbtxt"
    fed = ("dtype", "type: DT_FLOAT")
    nodes = [
        node("x", "Placeholder", "", *fed),
        node("g", "Placeholder", "", *fed),
        node("pool", "MaxPool3D", "x", *WINDOWS),
        node("back", "MaxPool3DGrad", "x pool g", *WINDOWS, "TInput", "type: DT_FLOAT"),
    ]
    path.write_text("".join(nodes))
    return path


def dump(folder: Path, values: Mapping[str, np.ndarray]) -> Path:
    folder.mkdir()
    for name, value in values.items():
        np.save(folder / f"{name}.0.1.npy", value)
    return folder


def windows(value: np.ndarray) -> np.ndarray:
    """Each window's elements along the second axis."""
    parts = value.reshape(3, 2, 3, 2, 3, 2, 2).transpose(0, 2, 4, 6, 1, 3, 5)
    return parts.reshape(54, 8)


def put(chosen: np.ndarray) -> np.ndarray:
    """The gradients of all windows at *chosen* places of them."""
    back = (chosen * GRADIENT.reshape(54, 1)).reshape(3, 3, 3, 2, 2, 2, 2)
    return back.transpose(0, 4, 1, 5, 2, 6, 3).reshape(FEATURES.shape).astype(np.float32)


INSIDE = windows(FEATURES)
LARGEST = INSIDE.max(axis=1, keepdims=True) == INSIDE
FIRST, LAST = (np.eye(8)[at] for at in (LARGEST.argmax(1), 7 - LARGEST[:, ::-1].argmax(1)))
POOLED = INSIDE.max(axis=1).reshape(GRADIENT.shape)


def judged(folder: Path, device: np.ndarray) -> tuple[Verdict, list[str]]:
    same = {"x": FEATURES, "g": GRADIENT, "pool": POOLED}
    golden = dump(folder / "golden", {**same, "back": put(FIRST)})
    found = dump(folder / "device", {**same, "back": device})
    path = model(folder)
    run = compare(CompareRequest(path, golden, path, found))
    return run.run.verdict, [each.op for each in (*run.origins, *run.suspects)]


@pytest.mark.parametrize("chosen", [LAST, LARGEST], ids=["the last", "each"])
def test_any_of_equal_elements_may_be_given_the_gradient(
    tmp_path: Path, chosen: np.ndarray
) -> None:
    verdict, named = judged(tmp_path, put(chosen))
    assert not named
    assert verdict is not Verdict.DIVERGED


def test_a_gradient_given_to_smaller_elements_is_wrong(tmp_path: Path) -> None:
    verdict, named = judged(tmp_path, put(np.eye(8)[INSIDE.argmin(axis=1)]))
    assert verdict is Verdict.DIVERGED
    assert named == ["back"]


def test_equal_elements_get_no_more_than_there_is(tmp_path: Path) -> None:
    wrong = put(LAST)
    wrong[0, 1, 1, 1] = 1000
    assert judged(tmp_path, wrong)[1] == ["back"]


@pytest.mark.parametrize(
    ("which", "chosen"),
    [("all", LARGEST), ("none", LARGEST & (LARGEST.sum(1, keepdims=True) == 1))],
)
def test_the_row_gives_all_of_them_or_none_the_gradient_if_asked(
    tmp_path: Path, which: str, chosen: np.ndarray
) -> None:
    path = model(tmp_path)
    executor = open_executor(path, read_graph(path), None)
    assert isinstance(executor, Alterable)
    piece = RunnableSubgraph("", ("x:0", "pool:0", "g:0"), ("back:0",))
    given = {"x:0": FEATURES, "pool:0": POOLED, "g:0": GRADIENT}
    found = executor.run_altered(piece, given, "back:0", {EQUAL_ELEMENTS: which})
    executor.close()
    assert found is not None
    np.testing.assert_array_equal(found["back:0"], put(chosen))
