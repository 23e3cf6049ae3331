"""Rows of TensorFlow's ops against what TensorFlow gave once; TensorFlow need not be there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from divergraph.execute.translate.executor import TranslatedExecutor
from divergraph.execute.translate.tensorflow.rows import ROWS
from divergraph.execute.translate.tensorflow.step import tensorflow_program
from graphstore.model import ModelGraph
from importers.registry import read_graph
from tests.made.tensorflow_ops.drawing import Array
from tests.made.tensorflow_ops.running import GIVEN, check_value
from tests.made.tensorflow_ops.stored import StoredRows, stored

_LOOPS = "runs in the loops, branches and calls of test_translated_loops"
_LISTS = "takes or gives a list, which is no tensor: test_translated_loops"
WITHOUT = {
    **dict.fromkeys(("Enter", "Exit", "NextIteration", "Switch", "Merge", "LoopCond"), _LOOPS),
    **dict.fromkeys(("RefEnter", "RefExit", "RefNextIteration", "RefSwitch", "RefMerge"), _LOOPS),
    **dict.fromkeys(("While", "If", "Case", "PartitionedCall"), _LOOPS),
    **dict.fromkeys(("StatelessWhile", "StatelessIf", "StatelessCase"), _LOOPS),
    **dict.fromkeys(("StatefulPartitionedCall", "Const"), _LOOPS),
    **dict.fromkeys(("Assert", "ControlTrigger", "NoOp"), "gives nothing"),
    "RefIdentity": "takes a variable itself: variables are read in test_translated_steps",
    "ReadVariableOp": "takes a resource: variables are read in test_translated_steps",
    **dict.fromkeys(("VarIsInitializedOp", "IsVariableInitialized"), "test_translated_steps"),
    "VariableShape": "takes a resource, and has the row of Shape",
    "ResourceGather": "takes a resource, and is made of the row of GatherV2",
    "DebugIdentity": "needs TensorFlow's debugger",
    **dict.fromkeys(("Conv2DBackpropInputV2", "Conv2DBackpropFilterV2"), "has no kernel for CPUs"),
    **dict.fromkeys((f"Segment{k}V2" for k in ("Sum", "Prod", "Max", "Min")), "none for CPUs"),
    **dict.fromkeys(
        (
            *("ResourceApplyKerasMomentum", "ResourceSparseApplyKerasMomentum"),
            "ResourceApplyAdamWithAmsgrad",
        ),
        "hands nothing on: test_what_ops_leave_of_resources",
    ),
    "Gelu": "is an op of plug-ins that TensorFlow lacks",
}
"""Op types without a stored case, and why."""


def reason(kind: str) -> str:
    """Why there is no stored case of an op type; empty if there should be one."""
    if kind.startswith(("TensorArray", "TensorList", "EmptyTensorList", "Stack")):
        return _LISTS
    plain = kind.removeprefix("Resource").replace("VariableOp", "")
    if plain != kind and plain in ROWS and ROWS.entries[plain].row is ROWS.entries[kind].row:
        return f"changes a resource, by the row of {plain}"
    return WITHOUT.get(kind, "")


@pytest.fixture(scope="module")
def rows() -> StoredRows:
    return stored()


@pytest.fixture(scope="module")
def graph(rows: StoredRows, tmp_path_factory: pytest.TempPathFactory) -> ModelGraph:
    path = tmp_path_factory.mktemp("rows") / "rows.pb"
    path.write_bytes(rows.model)
    return read_graph(path)


@pytest.fixture(scope="module", params=[False, True], ids=["as it is", "in float64"])
def found(
    rows: StoredRows, graph: ModelGraph, request: pytest.FixtureRequest
) -> Mapping[str, Array]:
    ends = [op.id for op in graph.ops if op.type not in GIVEN]
    program = tensorflow_program(graph, "", {}, ends, ())
    executor = TranslatedExecutor(replace(program, double=request.param))
    return dict(executor.run({each.name: rows.feeds[each.name] for each in executor.inputs}))


def test_every_row_gives_what_tensorflow_gave(rows: StoredRows, found: Mapping[str, Array]) -> None:
    assert len(rows.values) > 300
    assert not [name for name in rows.values if name not in found]
    for name, value in rows.values.items():
        check_value(name, found[name], value)


def test_every_row_has_a_stored_case_or_a_reason(graph: ModelGraph) -> None:
    cases = {op.type for op in graph.ops} - set(GIVEN)
    assert not [kind for kind in ROWS if kind not in cases and not reason(kind)]
    assert not [kind for kind in ROWS if kind in cases and reason(kind)]
    assert set(WITHOUT) <= set(ROWS)
