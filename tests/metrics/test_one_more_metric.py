"""A metric is a row of the table and a kernel: with both, every face has it.

The packages are copied with one metric more, and asked as a user would.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
PACKAGES = ("divergraph", "graphstore", "importers", "tui")
ROW = """    MEAN_SIGNED_ERROR = (
        *("mean_signed_error", "mean x - y", "bias"),
        *("mean signed error", "bias", "mean of x - y"),
    )


METRIC_NUMBERS = """
FIELD = "    mean_relative_error: float\n"
KERNEL = """    Metric.MEAN_SIGNED_ERROR: lambda of: (
        (of.sums.device.total - of.sums.golden.total) / of.sums.elements
    ),
}
\"\"\"How each metric"""
ASK = """
import sys
import divergraph as dg
from tui.render.overview_rows import Metric
run = dg.open_store(sys.argv[1])["r"]
print([round(row.metrics.mean_signed_error, 3) for row in run.ops() if row.metrics])
print(Metric("mean_signed_error").short)
"""
SMALL = """
import sys
import divergraph as dg
found = [pair.found.metrics.mean_signed_error for pair in dg.diff(*sys.argv[1:]).pairs]
assert len(found) == 40
print(min(found), max(found))
"""


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The command line of the packages with the metric, in a folder with a run of two ops: one is
    .5 too large in each element."""
    place = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, place / package, ignore=ignored)
    model = place / "graphstore" / "model" / "comparison.py"
    replaced(model, "\n\nMETRIC_NUMBERS = ", "\n" + ROW)
    replaced(model, FIELD, FIELD + "    mean_signed_error: float\n")
    kernels = place / "divergraph" / "metrics" / "metrics.py"
    replaced(kernels, '}\n"""How each metric', KERNEL)
    # without the installed distribution's own path, which leads back to the checkout
    environment = {**os.environ, "PYTHONPATH": str(place)}

    def call(*arguments: object, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            cwd=place,
            env=environment,
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("Tanh", ["r"], ["y"], "tanh"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 500]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph), place / "m.onnx")
    x = np.random.default_rng(1).standard_normal((1, 500)).astype(np.float32)
    relu = np.maximum(x, 0)
    for side, more in (("golden", 0), ("device", 0.5)):
        (place / side).mkdir()
        np.save(place / side / "relu.0.1700000000000000.npy", relu)
        np.save(place / side / "tanh.0.1700000000000000.npy", np.tanh(relu) + np.float32(more))
    sides = ("--golden", "m.onnx", "--golden-dump", "golden", "--device", "m.onnx")
    reports = ("--csv", "r.csv", "--html", "r.html")
    call(
        *("-m", "divergraph", "compare", *sides, "--device-dump", "device", "--run", "r"),
        *("--store", "s", *reports),
        code=1,
    )
    return call, place


def test_csv_json_and_html_have_it(run):
    call, place = run
    with (place / "r.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    values = {row["MeanSignedError"] for row in rows}
    assert {round(float(value), 3) for value in values} == {0.0, 0.5}
    page = (place / "r.html").read_text(encoding="utf-8")
    assert '["mean_signed_error", "mean x - y", "mean signed error"]' in page.replace('","', '", "')
    shown = json.loads(call("-m", "divergraph", "op", "r", "tanh", "--json", "--store", "s"))
    assert round(shown["metrics"]["mean_signed_error"], 3) == 0.5


def test_filter_sort_and_cypher_have_it(run):
    call, _ = run
    ask = ("-m", "divergraph")
    found = call(*ask, "ops", "r", "--where", "bias>0.4", "--json", "--store", "s")
    assert [op["name"] for op in json.loads(found)["ops"]] == ["tanh"]
    found = call(*ask, "ops", "r", "--sort", "mean_signed_error", "--json", "--store", "s")
    assert json.loads(found)["ops"][0]["name"] == "tanh"
    query = "MATCH (m:Metric) WHERE m.mean_signed_error > 0.4 RETURN m.mean_signed_error AS bias"
    rows = json.loads(call(*ask, "query", query, "--json", "--store", "s"))
    assert "0.4999" in json.dumps(rows)


def test_small_pairs_have_it_by_name(run):
    """Forty at once are computed in columns, in which it has no formula."""
    call, place = run
    golden, device = place / "small_golden", place / "small_device"
    values = np.random.default_rng(2).standard_normal(500).astype(np.float32)
    for folder, more in ((golden, 0), (device, 1e-6)):
        folder.mkdir()
        for number in range(40):
            np.save(folder / f"op{number}.0.1700000000000000.npy", values + np.float32(more))
    shown = call("-c", SMALL, device, golden)
    assert 0.9e-6 < float(shown.split()[0]) <= float(shown.split()[1]) < 1.1e-6


def test_python_and_the_ui_have_it(run):
    call, place = run
    assert call("-c", ASK, place / "s").split("\n")[:2] == ["[0.0, 0.5]", "bias"]
