"""Variables read behind their update, and steps that a condition skips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_step import MODEL, compared, saved_step

from divergraph.capture.file_names import FileNames
from divergraph.execution.installed import open_executor
from graphstore.contract import RunData
from importers.registry import read_graph

pytestmark = pytest.mark.tensorflow


def build(tf: Any) -> Any:
    """An update of a variable of each kind, and what reads them behind it."""
    v1 = tf.compat.v1
    first = np.arange(1, 13, dtype=np.float32).reshape(4, 3) / 7
    held = v1.get_variable("held", initializer=first, use_resource=True)
    plain = v1.get_variable("plain", initializer=first + 1, use_resource=False)
    count = v1.get_variable("count", initializer=np.float32(2), use_resource=False)
    x = v1.placeholder(tf.float32, [4, 3], "x")
    change = tf.multiply(x, tf.tanh(held), "change")
    updates = [held.assign_sub(change, read_value=False), plain.assign_sub(change)]
    with v1.control_dependencies(updates):
        after = tf.multiply(held.read_value(), 2.0, "after")
        average = tf.subtract(plain, 0.5, "average")

    def skip() -> Any:
        with v1.control_dependencies([count.assign(0.0)]):
            return tf.constant(-1.0)

    taken = v1.cond(tf.reduce_sum(x) > -100, lambda: count.assign_add(1.0) + 1.0, skip)
    return tf.group(after, average, taken, name="train")


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with its checkpoint, and the golden dump beside it."""
    x = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3)
    return saved_step(tmp_path_factory.mktemp("updates"), build, {"x:0": x})


def device(step: Path, folder: Path, wrong: str, factor: float) -> RunData:
    """A device with *wrong* a *factor* too large, and all behind it as it follows."""
    model = step / MODEL
    graph = read_graph(model)
    tensors = {tensor.name: tensor for op in graph.ops for tensor in op.outputs}
    x = np.load(step / "x.npy")
    plain = open_executor(model, graph)
    ((_, right),) = plain.run({"x:0": x}, [wrong])
    plain.close()
    executor = open_executor(model, graph, {"feed": wrong})
    fed = {"x:0": x, wrong: right * np.float32(factor)}
    given = {each.name: fed[each.name] for each in executor.inputs}
    found = {**dict(executor.run(given)), **fed}
    executor.close()
    names = FileNames(graph, 1)
    for op in graph.ops:
        for port, tensor in enumerate(op.outputs):
            if tensor.name in found and tensor.name in tensors:
                np.save(folder / names.of_output(op, port), found[tensor.name])
    return compared(step, folder)


def failures(data: RunData) -> dict[str, str]:
    """Why ops were not judged."""
    splits = {item.op: item.split for item in data.comparisons if item.split is not None}
    return {op: split.failure for op, split in splits.items() if split.failure}


def test_no_op_behind_an_update_is_blamed_for_what_was_updated(step: Path, tmp_path: Path) -> None:
    found = device(step, tmp_path, "change:0", 1.3)
    assert [(each.op, each.rank) for each in found.origins] == [("change", 1)]
    said = failures(found)
    assert "the step has changed" in said.pop("average")
    assert set(said) == {"x"}


def test_an_op_behind_an_update_is_found(step: Path, tmp_path: Path) -> None:
    found = device(step, tmp_path, "after:0", 1.3)
    assert [each.op for each in found.origins] == ["after"]


def test_a_merge_behind_a_branch_not_taken_is_run_as_it_was(step: Path, tmp_path: Path) -> None:
    found = device(step, tmp_path, "cond/add:0", 1.01)
    assert [each.op for each in found.origins] == ["cond/add"]
    assert not {"cond/Merge", "cond/AssignAdd"} & set(failures(found))
