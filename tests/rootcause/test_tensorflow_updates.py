"""Variables read behind their update, and steps that a condition skips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_step import compared, dump_with_fault, saved_step

from graphstore.contract import RunData

pytestmark = pytest.mark.tensorflow
X = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3)


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
    return saved_step(tmp_path_factory.mktemp("updates"), build, {"x:0": X})


def device(step: Path, folder: Path, wrong: str, factor: float) -> RunData:
    """A device with *wrong* a *factor* too large, and all behind it as it follows."""
    dump_with_fault(step, folder, {"x:0": X}, wrong, factor)
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
    assert set(said) == {"x", "plain/read"}, "nothing says whether it is read before the update"


def test_an_op_behind_an_update_is_found(step: Path, tmp_path: Path) -> None:
    found = device(step, tmp_path, "after:0", 1.3)
    assert [each.op for each in found.origins] == ["after"]


def test_a_merge_behind_a_branch_not_taken_is_run_as_it_was(step: Path, tmp_path: Path) -> None:
    found = device(step, tmp_path, "cond/add:0", 1.01)
    assert [each.op for each in found.origins] == ["cond/add"]
    assert not {"cond/Merge", "cond/AssignAdd"} & set(failures(found))
