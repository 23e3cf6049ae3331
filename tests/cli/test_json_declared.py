"""Each command's JSON has the declared fields, all the way down, and something in each list."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysed_runs import analysed_runs

from divergraph.present.schema import answers, commands, fields_of

ORIGIN = "LeNet/conv2/Conv2DRelu"
END = "gradients/AddN_7"
OFTEN_EMPTY = {"accepted", "entry_mismatches", "findings", "others", "suspects"}


def check(name: str, printed: Any) -> None:
    """*printed* is the declared object *name*; a list of objects without any would show nothing."""
    assert set(printed) == set(fields_of(name)), name
    for field, kind in fields_of(name).items():
        for inner in re.findall(r"\w+", kind):
            if inner in answers() and printed[field] is not None:
                listed = kind.startswith("[")
                empty = listed and not printed[field] and field not in OFTEN_EMPTY
                assert not empty, f"{name}.{field}"
                for item in printed[field] if listed else [printed[field]]:
                    check(inner, item)


@pytest.fixture
def store(lenet_store, divergraph, lenet) -> Path:
    graphs = divergraph("runs", "--store", lenet_store, "--json").json["graphs"]
    if not graphs:
        divergraph("import", lenet / "model.ckpt.meta", "--name", "lenet", "--store", lenet_store)
    return lenet_store


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("runs", ()),
        ("ops", ("fault",)),
        ("between", ("fault", ORIGIN, END)),
        ("origins", ("fault",)),
        ("trace", ("fault", ORIGIN)),
        ("lineage", ("fault", ORIGIN)),
        ("tensor", ("fault", ORIGIN)),
        ("query", ("MATCH (r:Run) RETURN r.name",)),
        ("doctor", ()),
        ("tui", ("fault",)),
    ],
)
def test_a_command_prints_the_documented_fields(divergraph, store, command, arguments):
    printed = divergraph(command, *arguments, "--store", store, "--json").json
    check(commands()[command][0], printed)


@pytest.fixture(scope="module")
def analysed(tmp_path_factory) -> Path:
    """A store with two runs of a small ONNX model, one with a weight that is off."""
    folder = tmp_path_factory.mktemp("analysed")
    analysed_runs(folder, str(folder / "store"))
    return folder / "store"


@pytest.mark.parametrize(
    ("command", "place", "arguments"),
    [
        ("origins", 0, ("bad",)),
        ("origins", 2, ("--all-runs",)),
        ("roles", 0, ("bad",)),
        ("trace", 0, ("bad",)),
        ("blame", 0, ("bad",)),
        ("compare-runs", 0, ("bad", "worse")),
        ("gate", 0, ("worse", "--baseline", "bad")),
    ],
)
def test_commands_on_analysed_runs(divergraph, analysed, command, place, arguments):
    printed = divergraph(command, *arguments, "--store", analysed, "--json").json
    check(commands()[command][place], printed)


def test_a_split_has_the_declared_fields(divergraph, analysed):
    rows = divergraph("ops", "bad", "--store", analysed, "--json").json["ops"]
    assert set(next(row["split"] for row in rows if row["split"])) == set(fields_of("ErrorSplit"))


def test_unmatched_ops(divergraph, store):
    printed = divergraph("lineage", "fault", "--unmatched", "--store", store, "--json").json
    check(commands()["lineage"][1], printed)


@pytest.mark.slow
def test_compare_and_demo(divergraph, compare_lenet, tmp_path):
    for command in (compare_lenet(), ["demo"]):
        printed = divergraph(*command, "--store", tmp_path / "store", "--json").json
        check(commands()["compare"][0], printed)
        assert printed["verdict"] == "diverged"


def test_import_and_delete(divergraph, lenet, tmp_path):
    at = ("--store", tmp_path / "store", "--json")
    printed = divergraph("import", lenet / "model.ckpt.meta", "--name", "net", *at).json
    check(commands()["import"][0], printed)
    check(commands()["delete"][0], divergraph("delete", "net", *at).json)


@pytest.mark.slow
def test_looking_after_stores(divergraph, lenet_store, tmp_path):
    other, file = tmp_path / "other", tmp_path / "all.backup"
    for command, arguments in (
        ("copy", ("fault", "--to", other, "--store", lenet_store)),
        ("rename", ("fault", "new", "--store", other)),
        ("backup", (file, "--store", other)),
        ("restore", (file, "--store", tmp_path / "third")),
        ("store", ("info", "--store", other)),
    ):
        printed = divergraph(command, *arguments, "--json").json
        check(commands()[command][0], printed)
    printed = divergraph("store", "repair", "--store", other, "--json").json
    check(commands()["store"][1], printed)


def test_report(divergraph, lenet_store, tmp_path):
    at = ("--store", lenet_store, "--json")
    printed = divergraph("report", "fault", "--markdown", tmp_path / "fault.md", *at).json
    check(commands()["report"][0], printed)


def test_the_list_of_queries(divergraph):
    check(commands()["query"][1], divergraph("query", "--list", "--json").json)


@pytest.mark.parametrize("side", ["device", "golden"])
def test_the_exported_file(divergraph, store, tmp_path, side):
    path = tmp_path / "fault.json"
    done = divergraph("export", "fault", "-o", path, "--side", side, "--store", store, "--json")
    check(commands()["export"][0], done.json)
    check(f"Exported{'Run' if side == 'device' else 'Graph'}", json.loads(path.read_text()))


def test_diff(divergraph, tmp_path):
    for side, values in (("device", [1.0, 2.0, 3.5]), ("golden", [1.0, 2.0, 3.0])):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "conv1.npy", np.array(values))
        np.save(tmp_path / side / f"{side}.npy", np.array(values))
    ended = divergraph("diff", tmp_path / "device", tmp_path / "golden", "--json")
    check(commands()["diff"][0], ended.json)


def test_compare_of_many_steps(divergraph, compare_lenet, lenet, tmp_path):
    (folder,) = {path.parent for path in (lenet / "npu_fault" / "dump").rglob("*.*")}
    step = tmp_path / "dump" / "20240101000000" / "0" / folder.parents[1].name / "1" / "4"
    shutil.copytree(folder, step)
    command = compare_lenet()
    command[-1] = str(tmp_path / "dump")
    at = ("--store", tmp_path / "store", "--json", "--method", "thresholds")
    printed = divergraph(*command, "--steps", "all", *at).json
    check(commands()["compare"][1], printed)


def test_convert(divergraph, lenet, tmp_path):
    (folder,) = {p.parent for p in (lenet / "npu_fault" / "dump").rglob("*") if p.is_file()}
    dump = next(folder.iterdir())
    (tmp_path / "no_dump").write_text("nothing")
    given = f"{dump},{tmp_path / 'no_dump'}"
    of_dumps, of_graph = commands()["convert"]
    printed = divergraph("convert", "-d", given, "-out", tmp_path / "out", "--json").json
    check(of_dumps, printed)
    out = tmp_path / "graph.dot"
    printed = divergraph(
        "convert", lenet / "model.ckpt.meta", "-t", "dot", "-out", out, "--json"
    ).json
    check(of_graph, printed)
