"""Every test here runs on every store: the embedded one and a real Neo4j."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from graphstore.contract import GraphStore, RunData
from graphstore.embedded import EmbeddedStore
from graphstore.errors import StoreError
from graphstore.neo4j import Neo4jStore
from graphstore.neo4j.local_server import LocalServer, local_server

SAMPLES = Path(__file__).with_name("conformance_samples.py")
"""Tests are no package, so what they share is loaded by its path."""
SPEC = importlib.util.spec_from_file_location(SAMPLES.stem, SAMPLES)
assert SPEC is not None
assert SPEC.loader is not None
samples = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(samples)

NEO4J = pytest.param("neo4j", marks=[pytest.mark.neo4j, pytest.mark.xdist_group("neo4j")])


@pytest.fixture(scope="session")
def neo4j_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server for the whole session; $DIVERGRAPH_TEST_NEO4J picks its version.

    In CI it must start. Elsewhere its tests are skipped where it cannot, with the reason.
    """
    home = tmp_path_factory.mktemp("neo4j")
    version = os.environ.get("DIVERGRAPH_TEST_NEO4J")
    running = local_server(home, version=version)
    try:
        server = running.__enter__()
    except StoreError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no Neo4j here: {error}")
    try:
        yield server
    finally:
        running.__exit__(None, None, None)


@pytest.fixture
def neo4j_store(neo4j_server: LocalServer) -> Iterator[Neo4jStore]:
    """An empty Neo4j store."""
    with Neo4jStore(neo4j_server.url, neo4j_server.user, neo4j_server.password) as store:
        store._wire.write_alone(
            "MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS", {}
        )
        yield store


@pytest.fixture(params=["embedded", NEO4J])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GraphStore]:
    """An empty store of each engine."""
    if request.param == "neo4j":
        yield request.getfixturevalue("neo4j_store")
    else:
        with EmbeddedStore(tmp_path / "store") as embedded:
            yield embedded


@pytest.fixture
def sample_run() -> Callable[..., RunData]:
    """Makes the small run with every kind of fact in it."""
    return samples.sample_run


@pytest.fixture
def shaped_run() -> Callable[..., RunData]:
    """Makes runs over graphs of any shape."""
    return samples.shaped_run


@pytest.fixture(name="samples")
def sample_makers() -> ModuleType:
    """The module conformance_samples."""
    return samples
