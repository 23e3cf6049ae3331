"""Every test here runs on every store: the embedded one and a real Neo4j."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

import full_run
import pytest
import shaped_runs
from neo4j_files import LTS_HERE
from server_statements import run_alone

from benchmarks.scale.local_neo4j import NEWEST, LocalServer, local_server
from graphstore.contract import GraphStore, RunData
from graphstore.embedded import EmbeddedStore
from graphstore.errors import StoreError
from graphstore.neo4j import Neo4jStore

NEO4J, NEO4J_NEWEST = (
    pytest.param(group, marks=[pytest.mark.neo4j, pytest.mark.xdist_group(group)])
    for group in ("neo4j", "neo4j-newest")
)

_ASKED_OF_THE_NEWEST = (
    "test_any_run.py",
    "test_asking_one_run.py",
    "test_console.py",
    "test_named_queries.py",
    "test_store_contract.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The newest release is asked what is quick of what the store promises; all, exhaustively."""
    for item in items:
        if "neo4j-newest" not in item.name.partition("[")[2]:
            continue
        if item.get_closest_marker("slow") or item.path.name not in _ASKED_OF_THE_NEWEST:
            item.add_marker(pytest.mark.exhaustive)


@contextmanager
def running_server(home: Path, version: str) -> Iterator[LocalServer]:
    """A server for the whole session; its files are here, or its tests are skipped before.

    In CI it must start; elsewhere its tests are skipped, too.
    """
    with ExitStack() as stack:
        try:
            server = stack.enter_context(local_server(home, version=version))
        except StoreError as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no Neo4j here: {error}")
        yield server


@pytest.fixture(scope="session")
def neo4j_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """The long-term release; $DIVERGRAPH_TEST_NEO4J names another one."""
    with running_server(tmp_path_factory.mktemp("neo4j"), LTS_HERE) as server:
        yield server


@pytest.fixture(scope="session")
def newest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """The newest calendar release."""
    with running_server(tmp_path_factory.mktemp("newest"), NEWEST) as server:
        yield server


@contextmanager
def empty_store(server: LocalServer) -> Iterator[Neo4jStore]:
    with Neo4jStore(server.url, server.user, server.password) as store:
        run_alone(
            store._wire, "MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS"
        )
        yield store


@pytest.fixture
def neo4j_store(neo4j_server: LocalServer) -> Iterator[Neo4jStore]:
    """An empty Neo4j store."""
    with empty_store(neo4j_server) as store:
        yield store


@contextmanager
def store_of_engine(request: pytest.FixtureRequest, place: Path) -> Iterator[GraphStore]:
    if request.param == "embedded":
        with EmbeddedStore(place / "store") as embedded:
            yield embedded
    else:
        name = "neo4j_server" if request.param == "neo4j" else "newest_server"
        with empty_store(request.getfixturevalue(name)) as store:
            yield store


@pytest.fixture(params=["embedded", NEO4J, NEO4J_NEWEST])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GraphStore]:
    """An empty store of each engine, and of both release lines of Neo4j."""
    with store_of_engine(request, tmp_path) as store:
        yield store


@pytest.fixture(scope="module", params=["embedded", NEO4J, NEO4J_NEWEST])
def module_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GraphStore]:
    """The same for a module that writes once and only asks then; it uses no other store."""
    with store_of_engine(request, tmp_path_factory.mktemp("module")) as store:
        yield store


@pytest.fixture
def sample_run() -> Callable[..., RunData]:
    """Makes the small run with every kind of fact in it."""
    return full_run.sample_run


@pytest.fixture
def shaped_run() -> Callable[..., RunData]:
    """Makes runs over graphs of any shape."""
    return shaped_runs.shaped_run


@pytest.fixture(name="samples")
def sample_makers() -> ModuleType:
    """The module full_run."""
    return full_run


@pytest.fixture
def chain_run() -> Callable[..., RunData]:
    """Makes runs over two linked chains."""
    return shaped_runs.chain_run


@pytest.fixture
def address(module_store: GraphStore, request: pytest.FixtureRequest, monkeypatch) -> str:
    """What --store takes; for Neo4j, the password is in the environment."""
    if isinstance(module_store, Neo4jStore):
        servers = map(request.getfixturevalue, ("neo4j_server", "newest_server"))
        server: LocalServer = next(each for each in servers if each.url == module_store.url)
        monkeypatch.setenv("NEO4J_USERNAME", server.user)
        monkeypatch.setenv("NEO4J_PASSWORD", server.password)
    return module_store.url
