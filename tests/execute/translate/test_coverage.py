"""How many op types have a translation, of each framework and of one model."""

from __future__ import annotations

import numpy as np

from divergraph.execute.translate.coverage import coverage, row_counts
from divergraph.execute.translate.ge.table import ROWS
from tests.made.device_ops import DeviceOps


def test_each_framework_is_counted(divergraph, tmp_path):
    counts = row_counts()
    assert counts["Ascend"] == len(ROWS.entries) > 250
    assert counts["caffe"] > 60
    assert counts["tensorflow"] > 200
    out = divergraph("doctor", "--store", tmp_path / "s").out
    (line,) = (each for each in out.splitlines() if "op types" in each)
    assert f"Ascend {counts['Ascend']}" in line
    assert "capture --coverage MODEL" in line


def test_a_device_graph_says_which_ops_verify_cannot_run(tmp_path):
    made, x = DeviceOps(tmp_path), np.ones((2, 3), np.float32)
    for name, kind in (("a", "Relu"), ("b", "Bincount"), ("c", "PartitionedCall")):
        made.add(name, kind, [x], [x])
    found = coverage(made.operands().graph)
    assert (found.ops, found.translated, found.without) == (2, 1, {"Bincount": 1})
