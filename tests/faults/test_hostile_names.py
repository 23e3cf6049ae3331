"""A thousand names that mean harm, through every report, and through commands and pages."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as Xml

import httpx
import pyarrow.parquet as pq
import pytest
from hostile_names import hostile_names
from served import served
from shaped_runs import shaped_run

from divergraph.cli.main import run
from divergraph.server.settings import ServerSettings
from divergraph.text.printable import printable
from graphstore.open_store import open_store
from graphstore.schema.codec import plain_text

OBEYED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@pytest.fixture(scope="module")
def names() -> list[str]:
    return hostile_names()


@pytest.fixture(scope="module")
def store(names: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of ops of these names, every third of them over its limit."""
    place = tmp_path_factory.mktemp("names") / "store"
    over = {name: number % 3 == 1 for number, name in enumerate(names)}
    with open_store(str(place)) as opened:
        opened.save_run(shaped_run("names", pairwise(names), over))
    return place


@pytest.fixture(scope="module")
def reports(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    kinds = ("csv", "html", "junit", "markdown", "parquet", "sarif")
    options = [part for kind in kinds for part in (f"--{kind}", str(folder / f"run.{kind}"))]
    assert run(["report", "names", "--store", str(store), *options]) == 0
    return folder


@pytest.mark.slow
def test_there_are_a_thousand_and_they_come_back(names: list[str], store: Path) -> None:
    assert len(set(names)) == 1000
    with open_store(str(store)) as opened:
        assert {op.id for op in opened.graph("names").ops} == set(names)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "markdown", "junit", "html", "sarif"])
def test_a_report_holds_nothing_that_acts(reports: Path, kind: str) -> None:
    text = (reports / f"run.{kind}").read_bytes().decode("utf-8").replace("\r\n", "\n")
    assert OBEYED.search(text) is None


@pytest.mark.slow
def test_csv_has_a_row_for_each_and_no_formula(names: list[str], reports: Path) -> None:
    with (reports / "run.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 1 + len(names)
    assert {len(row) for row in rows} == {len(rows[0])}
    cells = [cell for row in rows for cell in row if not re.fullmatch(r"-?[\d.]+(e[-+]\d+)?", cell)]
    assert not any(cell.startswith(FORMULA) for cell in cells)


@pytest.mark.slow
def test_junit_and_parquet_hold_each_name(names: list[str], reports: Path) -> None:
    cases = Xml.fromstring((reports / "run.junit").read_bytes()).iter("testcase")
    said = [case.attrib["name"] for case in cases]
    assert len(said) == len(names)
    shown = [printable(name) for name in names]
    assert all(any(name in one for one in said) for name in shown[::37])
    rows = pq.read_table(reports / "run.parquet").to_pylist()
    assert {row["op"] for row in rows} == {plain_text(name) for name in names}


@pytest.mark.slow
def test_html_holds_no_element_that_is_not_ours(reports: Path) -> None:
    text = (reports / "run.html").read_text(encoding="utf-8")
    assert "document.title='gone'</script>" not in text
    assert "<img src=x" not in text
    assert "<!--" not in text.partition("<body")[2]


@pytest.mark.slow
def test_a_list_of_ops_says_each_on_a_line_that_does_nothing(
    divergraph, names: list[str], store: Path
) -> None:
    ended = divergraph("ops", "--store", store, "names", "--limit", "2000")
    assert ended.code == 0
    assert OBEYED.search(ended.out + ended.err) is None
    shown = {printable(name)[:40] for name in names}
    lines = ended.out.splitlines()
    assert sum(any(name in line for name in shown) for line in lines) >= len(names)
    as_json = divergraph("ops", "--store", store, "names", "--limit", "2000", "--json")
    assert OBEYED.search(as_json.out) is None
    json.loads(as_json.out)


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[httpx.Client]:
    place = store.parent
    settings = ServerSettings(str(store), tokens=place / "none", state=place / "state")
    with served(settings) as client:
        yield client


@pytest.mark.slow
def test_the_api_and_pages_find_an_op_by_each_name(names: list[str], client: httpx.Client) -> None:
    told = client.get("/v1/runs/names/ops", params={"limit": 1000}).json()["ops"]
    assert {op["op"] for op in told} <= {plain_text(name) for name in names}
    assert len(told) == len(names)
    for name in names[::97]:
        page = client.get(
            "/runs/names/op", params={"op": plain_text(name)}, headers={"Accept": "text/html"}
        )
        assert page.status_code == 200, name
        shown = re.sub('<input type="hidden"[^>]*>', "", page.text)  # sent back as it is
        assert OBEYED.search(shown) is None
