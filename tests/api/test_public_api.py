"""``import divergraph as dg``: a run from paths to answers, kept nowhere or in a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import networkx
import numpy as np
import pytest

import divergraph as dg

NAMES = {
    *("Graph", "Rows", "Run", "Store", "__version__", "answers", "capture"),
    *("check_consistency", "check_queries"),
    *("compare", "compare_many", "convert", "demo", "demo_data", "detect", "diff", "errors"),
    *("list_dumps", "open_store", "plugins", "read_graph", "replay", "tensor_file"),
    *("to_networkx", "verify"),
    "watch",
}


def test_dir_shows_what_there_is_and_nothing_else():
    assert dir(dg) == sorted(NAMES)
    for name in NAMES:
        assert getattr(dg, name) is not None
    with pytest.raises(AttributeError, match="comparre"):
        dg.comparre  # noqa: B018


def test_the_page_explains_all_of_it():
    page = (Path(__file__).parents[2] / "docs/reference/python.md").read_text(encoding="utf-8")
    for name in NAMES - {"__version__"}:
        assert f"dg.{name}" in page or f"`{name}`" in page, name


def test_a_run_in_which_nothing_could_be_compared_is_not_kept_but_answers(tmp_path):
    data = dg.demo_data()
    (tmp_path / "empty").mkdir()
    for path in data.golden_dump.glob("*.npy"):
        (tmp_path / "empty" / path.name).write_bytes(b"no array")
    with dg.open_store(tmp_path / "store") as store:
        run = dg.compare(
            data.golden, tmp_path / "empty", data.device, data.device_dump, store=store
        )
        assert (run.verdict.value, run.kept, len(store)) == ("not_compared", False, 0)
        assert run.overview().reasons
        assert "nothing could be compared" in run.report(tmp_path / "run.md").read_text()


def test_answer_types_can_be_named_and_are_documented():
    for name in dir(dg.answers):
        assert getattr(dg.answers, name).__doc__
    with pytest.raises(AttributeError):
        dg.answers.Blaim  # noqa: B018


@pytest.mark.slow
def test_paths_may_be_texts_or_paths(demo_run):
    data = dg.demo_data()
    golden, device = str(data.golden), str(data.device)
    run = dg.compare(
        golden, data.golden_dump, device, data.device_dump, name="mine", method="thresholds"
    )
    assert (run.name, run.kept) == ("mine", False)
    assert run.counts == demo_run.counts
    assert [one.origin.op for one in run.origins] == [one.origin.op for one in demo_run.origins]


@pytest.mark.slow
def test_a_run_kept_nowhere_says_the_same_as_one_in_a_store(tmp_path, demo_run):
    with dg.open_store(tmp_path / "store") as store:
        kept = demo_run.save(store, "kept")
        assert kept.kept
        assert list(store) == ["kept"]
        assert "kept" in store
        assert "other" not in store
        there = store["kept"]
        assert there.verdict is demo_run.verdict
        assert there.ops("state:origin") == demo_run.ops("state:origin")
        assert there.trace() == demo_run.trace()
        assert there.roles().ops == demo_run.roles().ops
        assert there.tensors() == demo_run.tensors()
        with pytest.raises(dg.errors.NameTakenError):
            demo_run.save(store, "kept")
        with pytest.raises(dg.errors.UnknownNameError):
            store["other"]
        again = there.save(tmp_path / "second")
        assert again.name == "kept"
    assert not demo_run.kept


@pytest.mark.slow
def test_compare_keeps_in_a_store_what_the_command_line_reads(tmp_path):
    data = dg.demo_data()
    paths = (data.golden, data.golden_dump, data.device, data.device_dump)
    run = dg.compare(*paths, store=tmp_path / "store", method="thresholds")
    assert (run.name, run.kept) == ("run-1", True)
    command = [sys.executable, "-m", "divergraph", "ops", "run-1", "--json", "--where"]
    done = subprocess.run(
        [*command, "state:origin", "--store", str(tmp_path / "store")],
        capture_output=True,
        check=True,
    )
    listed = json.loads(done.stdout)["ops"]
    assert [op["op"] for op in listed] == [row.id for row in run.ops("state:origin")]


def test_values_of_both_sides_lie_alike_and_give_the_metrics(demo_run):
    for row in demo_run.ops("state:origin|inherited"):
        found = demo_run.tensor(row.id, row.output)
        assert found.device.shape == found.golden.shape
        worst = np.abs(found.device.astype(float) - found.golden).max()
        assert found.comparison.metrics is not None
        assert worst == pytest.approx(found.comparison.metrics.max_absolute_error)


def test_a_tensor_without_a_counterpart_says_why(demo_run):
    nothing = next(row for row in demo_run.ops("state:not_compared") if row.reason is not None)
    with pytest.raises(dg.errors.InputError, match=r"no values of both sides|not compared"):
        demo_run.tensor(nothing.id)
    with pytest.raises(dg.errors.UnknownNameError) as raised:
        demo_run.tensor("LeNet/conv2/Conv2DRel")
    assert "LeNet/conv2/Conv2DRelu" in raised.value.hint


def test_errors_are_typed_and_say_where_and_what_to_do(demo_run, tmp_path):
    with pytest.raises(dg.errors.ImportFormatError) as missing:
        dg.read_graph(tmp_path / "none.onnx")
    assert str(tmp_path / "none.onnx") in missing.value.where
    data = dg.demo_data()
    paths = (data.golden, data.golden_dump, data.device, data.device_dump)
    for wrong in (
        {"precision": "fp8"},
        {"method": "guess"},
        {"memory": 0},
        {"jobs": 0},
        {"suspect": 11.0},
    ):
        with pytest.raises(dg.errors.InputError) as raised:
            dg.compare(*paths, **wrong)
        assert next(iter(wrong)) in str(raised.value)
    with pytest.raises(dg.errors.FilterError):
        demo_run.ops("cos<<1")


@pytest.mark.parametrize(
    ("ending", "start"),
    [
        (".csv", b"Index"),
        (".html", b"<!"),
        (".xml", b"<?xml"),
        (".md", b"#"),
        (".parquet", b"PAR1"),
    ],
)
def test_reports_are_written_by_ending(demo_run, tmp_path, ending, start):
    path = demo_run.report(tmp_path / f"run{ending}")
    assert path.read_bytes()[: len(start)] == start


def test_a_report_of_no_known_ending_is_refused(demo_run, tmp_path):
    with pytest.raises(dg.errors.InputError, match=r"\.docx"):
        demo_run.report(tmp_path / "run.docx")


@pytest.mark.slow
def test_networkx_from_runs_graphs_and_stores(demo_run, tmp_path):
    graph = demo_run.to_networkx()
    assert isinstance(graph, networkx.MultiDiGraph)
    assert set(dg.to_networkx(demo_run)) == set(graph)
    golden = dg.read_graph(dg.demo_data().golden)
    assert len(dg.to_networkx(golden)) == len(golden.model.ops)
    with dg.open_store(tmp_path / "store") as store:
        demo_run.save(store, "run")
        assert set(dg.to_networkx(store, "run")) == set(graph)
        with pytest.raises(dg.errors.InputError, match="many graphs"):
            dg.to_networkx(store)


def test_a_part_is_cut_written_and_checked(demo_run, tmp_path):
    shown = demo_run.submodel(["LeNet/conv2/Conv2DRelu"], ["LeNet/conv2/Conv2DRelu"])
    assert shown.selection.chosen
    assert shown.path is None
    with pytest.raises(dg.errors.InputError, match="output"):
        demo_run.submodel(["LeNet/conv2/Conv2DRelu"], ["LeNet/conv2/Conv2DRelu"], check=True)


def test_plugins_of_all_kinds_are_listed():
    assert {"importers", "executors", "ui"} <= {each.kind for each in dg.plugins()}
    assert all(each.package == "divergraph" for each in dg.plugins("importers"))


def test_progress_is_told_to_a_function_and_silent_where_nobody_looks(capfd):
    data = dg.demo_data()
    paths = (data.golden, data.golden_dump, data.device, data.device_dump)
    told = []
    for progress in (lambda *said: told.append(said), True):
        dg.compare(*paths, method="thresholds", progress=progress)
    assert ("reading graphs", 0, None) in told
    assert any(done == total for stage, done, total in told if stage == "comparing tensors")
    assert capfd.readouterr().err == ""


class _Texts(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_notebooks_show_tables_and_nothing_a_name_smuggles_in(demo_run, tmp_path):
    page = _Texts()
    page.feed(demo_run._repr_html_() + demo_run.ops()._repr_html_())
    assert "LeNet/conv2/Conv2DRelu" in page.texts
    assert f"and {len(demo_run.ops()) - 20} more" in page.texts
    with dg.open_store(tmp_path / "store") as store:
        store.import_graph(_hostile_graph(tmp_path))
        graph = store.graph(store.graphs()[0].name)
        hostile = _Texts()
        hostile.feed(graph.ops()._repr_html_() + graph._repr_html_() + store._repr_html_())
    assert "script" not in hostile.tags
    assert any("<script>" in text for text in hostile.texts)


def _hostile_graph(folder: Path) -> Path:
    from onnx import TensorProto, helper, save

    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("x", "y")]
    node = helper.make_node("Relu", ["x"], ["y"], name="<script>alert(1)</script>")
    path = folder / "hostile.onnx"
    save(helper.make_model(helper.make_graph([node], "g", values[:1], values[1:])), str(path))
    return path


def test_rows_are_tables(demo_run):
    rows = demo_run.ops("state:origin|inherited")
    table = rows.to_arrow()
    assert table.num_rows == len(rows)
    assert table["id"].to_pylist() == [row.id for row in rows]
    assert table["cosine_similarity"].to_pylist() == [row.metrics.cosine_similarity for row in rows]
    assert str(table.schema.field("topo").type) == "int64"
    assert str(table.schema.field("originals").type).startswith("list<")
    empty = demo_run.ops("cos>2")
    assert empty.to_arrow().schema == table.schema
    assert len(empty) == 0
    assert demo_run.to_arrow().num_rows == len(demo_run.ops())
    assert rows[:2] == rows[0:2]
    for many in (demo_run.tensors(), demo_run.origins, demo_run.findings):
        assert many.to_arrow().num_rows == len(many)
        names = many.to_arrow().column_names
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_rows_become_frames_or_say_what_is_missing(demo_run, package, monkeypatch):
    rows = demo_run.ops("state:origin")
    convert = getattr(rows, f"to_{package}")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(dg.errors.InputError, match=f"{package} is not installed"):
        convert()
    monkeypatch.undo()
    pytest.importorskip(package)
    assert list(convert()["id"]) == ["LeNet/conv2/Conv2DRelu"]


@pytest.mark.slow
def test_what_a_run_kept_nowhere_wrote_goes_with_it(tmp_path):
    code = """
import divergraph as dg
data = dg.demo_data()
paths = data.golden, data.golden_dump, data.device, data.device_dump
run = dg.compare(*paths, method="thresholds")
assert run.ops("state:origin")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("divergraph-")]


def test_dumps_are_compared_without_a_graph(tmp_path):
    for side, values in (("golden", np.ones(4)), ("device", np.ones(4) * 1.5)):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "a.npy", values.astype(np.float32))
        np.save(tmp_path / side / "b.npy", np.ones(3, np.float32))
    found = dg.diff(tmp_path / "device", str(tmp_path / "golden"))
    assert (len(found.pairs), found.over, found.look) == (2, 1, None)
    table = found.rows.to_arrow()
    assert table["level"].to_pylist() == ["fail", "pass"]
    assert table["max_absolute_error"].to_pylist() == [0.5, 0.0]
    raw = tmp_path / "raw.bin"
    np.ones(4, np.float16).tofile(raw)
    one = dg.diff(raw, tmp_path / "golden" / "a.npy", dtype="float16", shape=[4])
    assert one.over == 0
    assert one.look is not None
    with pytest.raises(dg.errors.InputError, match="no such type"):
        dg.diff(raw, raw, dtype="float17")


def test_dumps_and_graphs_are_converted(tmp_path, demo_run):
    data = dg.demo_data()
    dumps = dg.convert(data.golden_dump, tmp_path / "texts", "txt")
    assert len(dumps.written) >= dumps.files > 0
    with dg.open_store(tmp_path / "store") as store:
        demo_run.save(store, "run")
        graph = dg.convert("run", tmp_path / "run.dot", "dot", store=store, side="golden")
    assert graph.written == (tmp_path / "run.dot",)
    with pytest.raises(dg.errors.InputError, match="not known"):
        dg.convert(data.golden, tmp_path / "x", "pdf")
