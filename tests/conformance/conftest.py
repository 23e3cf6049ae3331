"""Every test here runs on every store: the embedded one and a real Neo4j."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

import full_run
import pytest
import shaped_runs
from neo4j_files import RELEASE
from server_statements import run_alone

from benchmarks.scale.local_neo4j import LocalServer, local_server
from graphstore.contract import GraphStore, RunData
from graphstore.embedded import EmbeddedStore
from graphstore.errors import StoreError
from graphstore.neo4j import Neo4jStore

NEO4J = pytest.param("neo4j", marks=[pytest.mark.neo4j, pytest.mark.xdist_group("neo4j")])


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
    """One for all tests that run together."""
    with running_server(tmp_path_factory.mktemp("neo4j"), RELEASE) as server:
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
        with empty_store(request.getfixturevalue("neo4j_server")) as store:
            yield store


@pytest.fixture(params=["embedded", NEO4J])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GraphStore]:
    """An empty store of each engine."""
    with store_of_engine(request, tmp_path) as store:
        yield store


@pytest.fixture(scope="module", params=["embedded", NEO4J])
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
        server: LocalServer = request.getfixturevalue("neo4j_server")
        monkeypatch.setenv("NEO4J_USERNAME", server.user)
        monkeypatch.setenv("NEO4J_PASSWORD", server.password)
    return module_store.url


@pytest.fixture
def older(test_data: Path, tmp_path: Path) -> Path:
    """A store written with version 2: the run ``first``, and two others in one database."""
    with tarfile.open(test_data / "stores" / "version_2.tar.xz") as archive:
        # Python 3.11.3 and older has no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    return tmp_path / "v2store"
