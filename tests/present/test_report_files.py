"""CSV, Parquet, JUnit XML and Markdown, and where they are written."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from dataclasses import replace
from io import StringIO
from xml.etree import ElementTree as Xml

import pyarrow.parquet as pq
import pytest
from hostile_run import HOSTILE, hostile_run
from layered_run import analysed_run

from divergraph.ask.memory.notes import add_note
from divergraph.ask.questions.roles import RolesQuestion
from divergraph.cli.main import run
from divergraph.present.destination import REPORT_ENDINGS
from divergraph.present.html.report import html_report
from divergraph.present.junit_report import junit_report
from divergraph.present.markdown_report import markdown_report
from divergraph.present.run_report import stored_report, unkept_report
from divergraph.text.printable import printable
from graphstore.model import Metric, Note
from graphstore.open_store import open_store

ORIGIN = "LeNet/conv2/Conv2DRelu"


@pytest.fixture
def fault(demo_store):
    with open_store(str(demo_store)) as store:
        yield stored_report(store, "fault")


@pytest.fixture
def hostile(hostile_store):
    with open_store(str(hostile_store)) as store:
        yield stored_report(store, "hostile")


def test_all_at_once_and_a_list_of_them(demo_store, tmp_path, capsys):
    options = []
    for kind in ("csv", "html", "junit", "markdown", "parquet", "sarif"):
        options += [f"--{kind}", str(tmp_path / kind)]
    capsys.readouterr()
    assert run(["report", "fault", "--store", str(demo_store), "--json", *options]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["run"] == "fault"
    assert [f"--{each['kind']}" for each in said["files"]] == options[::2]
    assert all((tmp_path / each["kind"]).stat().st_size > 500 for each in said["files"])
    assert len(list(tmp_path.iterdir())) == 6
    named = [part for end in REPORT_ENDINGS for part in ("-o", str(tmp_path / f"r{end.upper()}"))]
    assert run(["report", "fault", "--store", str(demo_store), "--json", *named]) == 0
    again = json.loads(capsys.readouterr().out)["files"]
    assert [each["kind"] for each in again] == list(REPORT_ENDINGS.values())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--html", "{}/no/such/page.html"], "no such folder"),
        (["--html", "{}"], "it is a folder"),
        (["--csv", "{}/one", "--parquet", "{}/one"], "same place"),
        (["--csv", "-", "--markdown", "/dev/stdout"], "same place"),
        (["--html", "{}/page.html", "--excel"], "give --csv"),
        (["--markdown", "-", "--json"], "--json prints"),
        (["--json"], "at least one file"),
        (["-o", "{}/page.txt"], "no report ends in '.txt' (one of .csv, .html"),
        (["-o", "{}/a.html", "--html", "{}/b.html"], "two places for one html report"),
    ],
)
def test_bad_places_are_one_line_and_leave_nothing(demo_store, tmp_path, capsys, options, said):
    options = [option.format(tmp_path) for option in options]
    capsys.readouterr()
    assert run(["report", "fault", "--store", str(demo_store), *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_compare_writes_reports_and_standard_output_holds_nothing_else(lenet, tmp_path, capfd):
    sides = ["--golden", lenet / "model.ckpt.meta", "--golden-dump", lenet / "golden"]
    sides += ["--device", lenet / "npu_fault/graph", "--device-dump", lenet / "npu_fault/dump"]
    more = ["--markdown", "-", "--junit", tmp_path / "run.xml", "--store", tmp_path / "store"]
    arguments = [*sides, *more, "--method", "thresholds"]
    capfd.readouterr()
    assert run(["compare", *map(str, arguments)]) == 1
    printed = capfd.readouterr().out
    assert printed.startswith("### ")
    assert "worst tensors" not in printed
    assert Xml.parse(tmp_path / "run.xml").getroot().tag == "testsuites"


def test_excel_reads_utf8_and_runs_no_formula(hostile_store, tmp_path):
    path = tmp_path / "run.csv"
    at = ["--store", str(hostile_store), "--csv", str(path)]
    assert run(["report", "hostile", *at]) == 0
    plain = path.read_bytes()
    assert run(["report", "hostile", *at, "--excel"]) == 0
    assert path.read_bytes() == b"\xef\xbb\xbf" + plain
    cells = [cell for row in csv.reader(StringIO(plain.decode(), newline="")) for cell in row]
    assert f"'{printable(HOSTILE)}" in cells
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)


def test_parquet_holds_every_number_of_every_tensor(fault, demo_store, tmp_path):
    path = tmp_path / "run.parquet"
    assert run(["report", "fault", "--store", str(demo_store), "--parquet", str(path)]) == 0
    table = pq.read_table(path)
    lines = table.to_pylist()
    facts = json.loads(table.schema.metadata[b"divergraph"])
    assert facts["verdict"] == "diverged"
    assert facts["origins"] == [ORIGIN]
    assert len(lines) == len(fault.tensors) == fault.run.counts.tensors
    for line, item in zip(lines, fault.tensors, strict=True):
        assert (line["op"], line["io"], line["port"]) == (item.op, item.io, item.port)
        assert line["reason"] == item.reason
        assert line["failed"] == list(item.failed)
        assert line["shape"] == (None if item.shape is None else list(item.shape))
        for metric in Metric:
            if metric is not Metric.STANDARD_DEVIATION:
                wanted = None if item.metrics is None else item.metrics.value(metric)
                assert same(line[metric], wanted), metric
        for name in ("bad", "atol", "worst_device", "snr", "where_bad"):
            wanted = None if item.figures is None else getattr(item.figures, name)
            assert same(line[name], wanted), name
    (origin,) = [line for line in lines if line["state"] == "origin"]
    assert origin["op"] == ORIGIN
    assert origin["gain"] is not None


def same(one, other) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other


def test_parquet_keeps_the_split(hostile_store, tmp_path):
    path = tmp_path / "run.parquet"
    assert run(["report", "hostile", "--store", str(hostile_store), "--parquet", str(path)]) == 0
    lines = {line["op"]: line for line in pq.read_table(path).to_pylist()}
    guilty = lines[HOSTILE]
    assert (guilty["role"], guilty["guilt"]) == ("introduces", "guilty")
    assert guilty["suspicion"] == math.inf
    assert guilty["group"] == [HOSTILE]
    assert lines["first"]["role"] is None
    assert lines["last"]["detail"] == HOSTILE


def suite_of(report) -> Xml.Element:
    root = Xml.fromstring(junit_report(report))
    assert (root.tag, root.attrib) == ("testsuites", {})
    (suite,) = root
    return suite


@pytest.mark.parametrize("name", ["fault", "hostile"])
def test_junit_is_what_servers_expect(name, request):
    suite = suite_of(request.getfixturevalue(name))
    # The order and the attributes of Ant's schema, the strictest.
    tags = [child.tag for child in suite]
    cases = suite.findall("testcase")
    assert tags == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
    assert set(suite.attrib) == {
        *("id", "package", "name", "timestamp", "hostname"),
        *("tests", "failures", "errors", "skipped", "time"),
    }
    assert int(suite.get("tests", "")) == len(cases)
    for kind, tag in (("failures", "failure"), ("skipped", "skipped"), ("errors", "error")):
        assert int(suite.get(kind, "")) == len(suite.findall(f"testcase/{tag}")), kind
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", ""))
    assert all(suite.get(name) for name in ("id", "package", "name", "hostname"))
    assert all(
        set(each.attrib) == {"name", "value"} and each.get("name")
        for each in suite.findall("properties/property")
    )
    assert all({"name", "classname", "time"} == set(case.attrib) for case in cases)
    assert all(re.fullmatch(r"\d+(\.\d+)?", each.get("time", "")) for each in (suite, *cases))
    for each in (*suite.iterfind("testcase/failure"), *suite.iterfind("testcase/error")):
        assert {"type"} <= set(each.attrib) <= {"type", "message"}
    assert all(set(each.attrib) == {"message"} for each in suite.iterfind("testcase/skipped"))
    assert not [each for case in cases for child in case for each in child], "text only"
    assert all(len(case) <= 1 for case in cases)
    assert len({case.get("name") for case in cases}) == len(cases)


def test_junit_fails_what_diverged_and_skips_with_the_reason(fault):
    cases = {case.get("name"): case for case in suite_of(fault).findall("testcase")}
    assert len(cases) == fault.run.counts.ops
    failure = cases[ORIGIN].find("failure")
    assert failure is not None
    assert failure.get("type") == "origin"
    assert "0.131" in (failure.text or "")
    assert "58 ops inherit it: " in (failure.text or "")
    assert [case for case in cases.values() if case.find("failure") is not None] == [cases[ORIGIN]]
    skipped = cases["Const_3"].find("skipped")
    assert skipped is not None
    assert "runs no task on the device" in skipped.get("message", "")


def test_of_nothing_compared_there_is_an_error():
    from dataclasses import replace

    from graphstore.model import OpState, Verdict

    data = hostile_run()
    items = tuple(replace(item, metrics=None, split=None) for item in data.comparisons)
    value = replace(data.run, verdict=Verdict.NOT_COMPARED)
    states = dict.fromkeys(data.states, OpState.NOT_COMPARED)
    data = replace(data, run=value, comparisons=items, states=states, origins=(), findings=())
    report = unkept_report(data)
    suite = suite_of(report)
    assert suite.get("errors") == "1"
    assert suite.get("skipped") == "3"
    assert "nothing could be compared" in markdown_report(report)


@pytest.mark.parametrize("form", [markdown_report, lambda report: junit_report(report).decode()])
def test_reports_show_names_as_escapes(hostile, form):
    text = form(hostile)
    assert all(char.isprintable() or char in "\n\ufe0f" for char in text)
    assert "\\u202ebackwards" in text.replace("\\\\", "\\")  # Markdown escapes backslashes
    assert "odd\\x00" in text.replace("\\\\", "\\")


def test_markdown_is_short_and_names_the_origin(fault):
    text = markdown_report(fault)
    assert text.startswith("### ❌ fault: diverged\n")
    assert f"| 1 | `{ORIGIN}:0` | `Conv2D` | 0.993600 | 0.131 | 0.101 |" in text
    assert "**59 over a limit**" in text
    assert len(text.splitlines()) < 50


def test_markdown_of_hostile_names_is_a_table_still(hostile):
    text = markdown_report(hostile)
    line = next(line for line in text.splitlines() if line.startswith("| 1 |"))
    bars = [place for place, char in enumerate(line) if char == "|" and line[place - 1] != "\\"]
    heading = next(line for line in text.splitlines() if line.startswith("|  |"))
    assert len(bars) == heading.replace("\\|", "").count("|")
    outside = "".join(line.split("``")[::2])
    assert "<script>" not in outside.replace("\\<", "")


def test_markdown_has_what_people_wrote_of_ops(fault):
    assert "note on" not in markdown_report(fault)
    said = Note("1", fault.run.golden, "conv2/Conv2D", "a | <b>", "Ann", "2026-01-02T00:00:00Z", 0)
    text = markdown_report(replace(fault, notes=((ORIGIN, said),)))
    line = f"- `{ORIGIN}`: note on `conv2/Conv2D:0`: a \\| \\<b\\> (Ann, 2026-01-02)"
    assert line in text.splitlines()


def test_a_report_finds_the_notes_on_the_originals_of_its_ops(demo_store, tmp_path):
    shutil.copytree(demo_store, tmp_path / "store")
    with open_store(str(tmp_path / "store")) as store:
        note = add_note(store, "fault", ORIGIN, "seen before", "Ann")
        report = stored_report(store, "fault")
        assert report.notes == ((ORIGIN, note),)
        assert f"<p>note on {note.about}: seen before" in html_report(report)


def test_a_role_has_the_notes_on_its_op(tmp_path):
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(analysed_run("layers"))
        question = RolesQuestion("layers")
        first = question.ask(store).ops[0].op
        add_note(store, "layers", first, "<b>", "Ann")
        assert [note.text for note in question.ask(store).ops[0].team_notes] == ["<b>"]
        assert ": &lt;b&gt;  (Ann, " in html_report(stored_report(store, "layers"))
