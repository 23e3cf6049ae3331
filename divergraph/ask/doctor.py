"""Checks: is the installation complete, are the four packages ours, can the store be used?"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from divergraph.execute.child.executor import isolation_gaps
from divergraph.execute.child.limits import ModelLimits
from divergraph.execute.translate.coverage import row_counts
from divergraph.files.own_packages import OWN_PACKAGES, strangeness
from divergraph.text.words import counted
from graphstore.contract import GraphStore
from graphstore.errors import DivergraphError, StoreError

_EXTRAS = {
    "tensorflow": ("tensorflow", "running TensorFlow graphs"),
    "distributed": ("cluster", "comparing on many machines"),
    "mcp": ("mcp", "answering agents"),
    "jgo": ("neo4j-server", "a Neo4j server started for you"),
}


@dataclass(frozen=True, slots=True)
class InstallationCheck:
    """The result of one check; ``optional`` things may be missing."""

    name: str
    fine: bool
    detail: str
    optional: bool = False


def checks(store_url: str) -> list[InstallationCheck]:
    """Everything worth knowing before asking for help, the store last."""
    installation = (*_python(), *_packages(), *_libraries(), *_extras(), *_models(), *_rows())
    return [*installation, *_own_server(), *_store(store_url)]


def _python() -> Iterator[InstallationCheck]:
    number = ".".join(str(part) for part in sys.version_info[:3])
    yield InstallationCheck("python", sys.version_info >= (3, 11), f"{number} at {sys.executable}")


def _packages() -> Iterator[InstallationCheck]:
    """Other distributions use the same package names: say which file stands in the way."""
    home = Path(__file__).resolve().parents[2]
    yield InstallationCheck("divergraph", True, str(home / "divergraph"))
    for name in OWN_PACKAGES:
        fault = strangeness(name)
        yield InstallationCheck(name, not fault, fault or str(home / name))


def _libraries() -> Iterator[InstallationCheck]:
    # By name only: the installer has checked the versions.
    named = [re.match(r"[\w.-]+", text) for text in requires("divergraph") or () if ";" not in text]
    for name in sorted(match[0] for match in named if match is not None):
        try:
            yield InstallationCheck(name, True, version(name))
        except PackageNotFoundError:
            yield InstallationCheck(name, False, "not installed; reinstall divergraph")


def _extras() -> Iterator[InstallationCheck]:
    for module, (extra, purpose) in _EXTRAS.items():
        fine = util.find_spec(module) is not None
        how = "installed" if fine else f"not installed: pip install 'divergraph[{extra}]'"
        yield InstallationCheck(module, fine, f"{how} (for {purpose})", optional=True)


def _models() -> Iterator[InstallationCheck]:
    """What of the isolation of models this system allows."""
    name = "isolation of models"
    try:
        limits = ModelLimits.of_environment()
        gaps = isolation_gaps()
    except (DivergraphError, OSError) as error:
        yield InstallationCheck(name, False, f"no model can be run: {error}")
        return
    limit_text = f"each answer at most {limits.memory} MiB and {limits.seconds} s"
    if not gaps:
        yield InstallationCheck(name, True, f"no network, one writable folder, {limit_text}")
    for part, reason in gaps:
        yield InstallationCheck(name, False, f"not held: {part} ({reason})", optional=True)


def _rows() -> Iterator[InstallationCheck]:
    """How many op types can be run by translation."""
    try:
        counts = row_counts()
    except (DivergraphError, ImportError) as error:
        yield InstallationCheck("op types", False, f"the tables cannot be read: {error}")
        return
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    detail = f"{listed}; a model's ops without one: divergraph capture --coverage MODEL"
    yield InstallationCheck("op types", True, detail)


def _own_server() -> Iterator[InstallationCheck]:
    """What `divergraph neo4j start` needs."""
    from graphstore.neo4j.local_server.jars import LTS, NEWEST, fetched_jars
    from graphstore.neo4j.local_server.java import find_java

    try:
        java = find_java(NEWEST)
    except StoreError as error:
        yield InstallationCheck(
            "java", False, f"{error} (for `divergraph neo4j start`)", optional=True
        )
    else:
        yield InstallationCheck("java", True, f"{java.major} at {java.program}", optional=True)
    here = [version for version in (LTS, NEWEST) if fetched_jars(version) is not None]
    detail = ", ".join(here) or "none here yet: `divergraph neo4j start` fetches them"
    yield InstallationCheck("neo4j jars", bool(here), detail, optional=True)


def _store(url: str) -> Iterator[InstallationCheck]:
    from graphstore.open_store import open_store

    try:
        with open_store(url) as store:
            runs, graphs = len(store.runs()), len(store.graphs())
            message = f"{url}: {counted(runs, 'run')}, {counted(graphs, 'graph')}"
            yield InstallationCheck("store", True, message)
            yield from _store_parts(store)
    except DivergraphError as error:
        message = str(error)
        yield InstallationCheck(
            "store", False, message if message.startswith(url) else f"{url}: {message}"
        )


def _store_parts(store: GraphStore) -> Iterator[InstallationCheck]:
    info = store.info()
    schema = "no schema yet" if info.schema is None else f"schema {info.schema}"
    yield InstallationCheck("store engine", True, f"{info.engine}, {schema}")
    for text in info.other_engines:
        yield InstallationCheck("store engine", False, text, optional=True)
    if info.views:
        yield InstallationCheck("store views", True, f"made by {', '.join(info.views)}")
    if info.pending:
        leftover = f"{counted(len(info.pending), 'thing')} left by writers that died"
        yield InstallationCheck(
            "store leftovers", False, f"{leftover}: divergraph store repair", optional=True
        )
    for text in info.damaged:
        yield InstallationCheck(
            "store damage", False, f"{text}: divergraph store repair --set-aside"
        )
    try:
        store.check_writable()
    except DivergraphError as error:
        yield InstallationCheck("store writing", False, f"reading only: {error}", optional=True)
    else:
        yield InstallationCheck("store writing", True, "reading and writing")
