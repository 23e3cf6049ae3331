"""Names meant to act on a page are shown, and do nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import httpx
import pytest
from full_run import not_compared, sample_run
from hostile_run import hostile_run, hostile_throughout
from served import served

from divergraph.server.settings import ServerSettings
from divergraph.text.printable import printable
from graphstore.contract import RunData
from graphstore.model import GraphKind, InputRef, Op, OpState, Reason, Tensor, TensorRef
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough

OBEYED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
LONG = f"{'深度/学习' * 60}/\u202eend/..%2f<svg onload=x>?op=a&side=b#c+d%"
HALF = "half \ud83d pair"
REPLACED = "half \ufffd\ufffd\ufffd pair"
ELEMENTS = set(
    "html head meta link title script body a div nav span form input button header h1 h2 h3 p main "
    "section ul ol li table caption thead tbody tr th td label select option svg defs marker path "
    "g rect text circle line small b dl dt dd details summary time meter noscript code br "
    "datalist figure figcaption canvas aside wbr".split()
)

_ADDRESSES = ("href", "action")


def named(*names: str) -> RunData:
    """The hostile run with a chain of ops of these names in its graphs' place."""
    data = hostile_run()
    ops = tuple(
        Op(
            id=name,
            name=name,
            type=name,
            inputs=(InputRef(f"{before}:0", TensorRef(before, 0)),) if before else (),
            outputs=(Tensor(name, shape=(1, 2)),),
        )
        for before, name in zip(("", *names), names, strict=False)
    )
    graph = replace(data.device, ops=ops)
    return replace(
        data,
        run=replace(data.run, name="named"),
        golden=replace(graph, kind=GraphKind.ORIGINAL),
        device=graph,
        comparisons=tuple(not_compared(name, Reason.NO_OUTPUT, name) for name in names),
        states=dict.fromkeys(names, OpState.NOT_COMPARED),
        origins=(),
        findings=(),
    )


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    place = tmp_path_factory.mktemp("hostile")
    with open_store(str(place / "store")) as store:
        store.save_run(hostile_run())
        store.save_run(hostile_throughout(sample_run("throughout")))
        store.save_run(named(LONG, "a//b/", "\u05d0\u05d1/+ %41", " ", "\"'><", HALF))
        store.save_graph(hostile_run().device, "日本 <b>&\"'")
    settings = ServerSettings(str(place / "store"), tokens=place / "none", state=place / "state")
    with served(settings) as client:
        client.headers["Accept"] = "text/html"
        yield client


class Looked(HTMLParser):
    """The elements, links and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag
        given = dict(attrs)
        assert not any(name.startswith("on") or name == "style" for name in given)
        assert tag != "script" or str(given["src"]).startswith("/static/")
        if tag == "a":
            address = str(given["href"])
            assert address.startswith(("/", "#"))
            self.links.append(address)
        if given.get("type") != "hidden":  # what is sent back as it is, and not shown
            self.texts += [value for name, value in attrs if value and name not in _ADDRESSES]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("run", ["hostile", "throughout", "named", "日本 <b>&\"'"])
def test_every_page_shows_names_as_they_are(client: httpx.Client, run: str) -> None:
    """All ways from the page of a run that stay with it, as they are in its links."""
    first = next(way for way in Looked(client.get("/").text).links if run_of(client, way) == run)
    open_ways, seen = [first], {first}
    while open_ways:
        answer = client.get(open_ways.pop())
        allowed = (200, 400) if "/part?" in str(answer.url) else (200,)
        assert answer.status_code in allowed, (answer.url, answer.text[-600:])
        page = Looked(answer.text)
        assert not any(map(OBEYED.search, page.texts))
        for way in page.links:
            plain = way.partition("#")[0]
            if plain.startswith(first) and plain not in seen and len(seen) < 60:
                seen.add(plain)
                open_ways.append(plain)
    assert len(seen) > 8


def run_of(client: httpx.Client, way: str) -> str:
    """The name of the run that a page is about."""
    return httpx.URL(way).path.removeprefix("/runs/") if way.startswith("/runs/") else ""


def test_a_name_leads_to_its_own_op(client: httpx.Client) -> None:
    """With slashes, signs that mean something in an address, and letters of all scripts."""
    ways = {
        httpx.URL(way).params["op"]: way
        for way in Looked(client.get("/runs/named").text).links
        if "/op?op=" in way
    }
    asked = client.get("/v1/runs/named/ops").json()["ops"]
    assert len(asked) == 6
    assert ways.keys() == {op["op"].replace(HALF, REPLACED) for op in asked}
    for op, way in ways.items():
        assert printable(op.replace(REPLACED, HALF)) in Looked(client.get(way).text).texts


def test_problems_show_names_harmless(client: httpx.Client) -> None:
    for url in ("/runs/%1b[2J<script>x", "/runs/hostile/op?op=%e2%80%ae<img src=x>", "/%0a<b>"):
        page = Looked(client.get(url).text)
        assert not any(map(OBEYED.search, page.texts))
    assert "\\x1b[2J" in " ".join(Looked(client.get("/runs/%1b[2J<script>x").text).texts)
