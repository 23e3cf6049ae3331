"""The pages of the server show the same on every store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from full_run import sample_run
from served import served

from benchmarks.scale.local_neo4j import LocalServer
from divergraph.server.settings import ServerSettings
from graphstore.contract import GraphStore
from graphstore.neo4j import Neo4jStore
from graphstore.open_store import open_store

pytestmark = pytest.mark.slow

WAYS = (
    "/",
    "/runs/first",
    "/runs/first?where=fused>1&sort=-rel",
    "/runs/first?side=golden",
    "/runs/first?plot=cosine_similarity",
    "/runs/first/op?op=conv",
    "/runs/first/op?op=pool&side=golden",
    "/runs/first/op?op=loop&colour=max_absolute_error",
    "/runs/first/part?start=conv&end=pool",
    "/runs/unlinked/part?start=conv&end=pool",
    "/runs/net",
)


def fill(store: GraphStore) -> None:
    data = sample_run("unlinked")
    store.save_run(replace(data, links=()))
    store.save_run(sample_run("first"))
    store.save_graph(data.device, "net")


@pytest.fixture
def client(
    module_store: GraphStore, request: pytest.FixtureRequest, monkeypatch, tmp_path: Path
) -> Iterator[httpx.Client]:
    fill(module_store)
    if isinstance(module_store, Neo4jStore):
        server: LocalServer = request.getfixturevalue("neo4j_server")
        monkeypatch.setenv("NEO4J_USERNAME", server.user)
        monkeypatch.setenv("NEO4J_PASSWORD", server.password)
    with served(ServerSettings(module_store.url, tokens=tmp_path / "none")) as client:
        yield client


def test_pages_are_the_same_on_every_store(client: httpx.Client, tmp_path: Path) -> None:
    url = str(tmp_path / "embedded")
    with open_store(url) as store:
        fill(store)
    with served(ServerSettings(url, tokens=tmp_path / "none")) as other:
        for way in WAYS:
            pages = [each.get(way, headers={"Accept": "text/html"}) for each in (client, other)]
            # when a graph was imported is all that may differ
            texts = [re.sub(r"\d\d:\d\d:\d\d", "", page.text) for page in pages]
            assert pages[0].status_code == 200, (way, texts[0])
            seals = [text.partition('name="seal"')[2][:80] for text in texts]
            assert texts[0].replace(seals[0] or " ", "") == texts[1].replace(seals[1] or " ", "")
