"""The files of the Neo4j servers, fetched once, before any test's time runs.

Registered by the topmost conftest. Where they cannot be had, the tests that need a server are
skipped, and the last lines of the session say so.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from graphstore.errors import StoreError
from graphstore.file_lock import held_lock
from graphstore.neo4j.local_server.jars import NEWEST, fetch_jars, version_number

RELEASE = version_number(os.environ.get("DIVERGRAPH_TEST_NEO4J", "lts"))
"""The long-term release; $DIVERGRAPH_TEST_NEO4J names another one: .ci/run gives the newest to the
tests it runs behind README's."""

_MISSING = "no files of a Neo4j server here: "
_NOTES = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch them if a selected test needs them; of several workers, one does."""
    needing = [item for item in session.items if item.get_closest_marker("neo4j")]
    if not needing or session.config.option.collectonly:
        return
    if why := _why_missing(session.config):
        for item in needing:
            item.add_marker(pytest.mark.skip(reason=_MISSING + why))


def _why_missing(config: pytest.Config) -> str:
    """Empty if the files are here; of several workers, one tries."""
    folder = getattr(config, "workerinput", {}).get("neo4j_notes")
    if folder is None:
        return _fetch(config)
    note = Path(folder) / "missing"
    with held_lock(Path(folder) / "lock"):
        if not note.exists():
            note.write_text(_fetch(config), encoding="utf-8")
        return note.read_text(encoding="utf-8")


def _fetch(config: pytest.Config) -> str:
    """Why they cannot be had, empty if they can."""

    def say(line: str) -> None:
        with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            sys.stderr.write(f"\n{line}\n")

    try:
        for version in (RELEASE, NEWEST):
            fetch_jars(version, say)
    except StoreError as error:
        return str(error)
    return ""


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    """Give all workers one folder, where the one that fetches notes how that went."""
    stash = node.config.stash
    if _NOTES not in stash:
        stash[_NOTES] = tempfile.TemporaryDirectory(prefix="neo4j-notes-")
    node.workerinput["neo4j_notes"] = stash[_NOTES].name


def pytest_unconfigure(config: pytest.Config) -> None:
    if _NOTES in config.stash:
        config.stash[_NOTES].cleanup()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what was not tested."""
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    skipped = [reason for reason in reasons if _MISSING in reason]
    if skipped:
        terminalreporter.section(f"{len(skipped)} tests of Neo4j were SKIPPED", red=True)
        terminalreporter.write_line(skipped[0].removeprefix("Skipped: "))
