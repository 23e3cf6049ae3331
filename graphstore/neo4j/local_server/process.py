"""A Neo4j server as a process: its folder, its settings, its start and its end.

It listens on 127.0.0.1 only, sends no usage reports, serves no web pages and reads no
files for ``LOAD CSV``.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphstore.errors import InputError, StoreError
from graphstore.neo4j.local_server.jars import Jars
from graphstore.neo4j.local_server.java import Java
from graphstore.neo4j.passwords import DEFAULT_USER, Password, check_private
from graphstore.private_folder import private_folder

_OPENS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "java.io", "sun.nio.ch", "java.util.concurrent")
]
_ADMIN = "org.neo4j.cli.AdminTool"
_MEMORY = re.compile(r"[1-9]\d*[mgMG]")
_POLL_SECONDS = 0.2
_LOG_TAIL = 1500


@dataclass(frozen=True, slots=True)
class Setup:
    """What to run: *home* is the server's folder, *settings* go beside ours."""

    home: Path
    java: Java
    jars: Jars
    port: int
    heap: str = "512m"
    settings: Mapping[str, str] = field(default_factory=dict)
    # a fifth less work for an import than with G1, Java's default, at this size of heap
    java_options: Sequence[str] = ("-XX:+UseParallelGC",)

    @property
    def url(self) -> str:
        """Where its store is."""
        only_tls = self.settings.get("server.bolt.tls_level") == "REQUIRED"
        return f"bolt{'+ssc' if only_tls else ''}://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.home / "logs" / "console.log"

    @property
    def pid_file(self) -> Path:
        """The process's number, written by itself before it becomes Java."""
        return self.home / "run" / "neo4j.pid"

    @property
    def password_file(self) -> Path:
        """The password, readable by its owner only."""
        return self.home / "password"


def check_memory(heap: str) -> None:
    """Raise InputError if *heap* is no amount of memory, like ``512m``."""
    if not _MEMORY.fullmatch(heap):
        raise InputError(f"{heap!r} is no amount of memory", hint="like 512m or 2g")


def _megabytes(heap: str) -> int:
    return int(heap[:-1]) * (1024 if heap[-1] in "gG" else 1)


def prepare(setup: Setup) -> Password:
    """Make the folder, the settings and, the first time, the password.

    Raises:
        StoreError: the folder cannot be used.
    """
    try:
        private_folder(setup.home)
        setup.home.chmod(0o700)
        for folder in ("conf", "data", "logs", "plugins", "import", "run"):
            (setup.home / folder).mkdir(exist_ok=True)
        _write_settings(setup)
        return _password(setup)
    except OSError as error:
        raise StoreError(
            f"cannot make the server's folder: {error.strerror}", where=str(setup.home)
        ) from error


def launch(setup: Setup, **options: Any) -> subprocess.Popen[bytes]:
    """Start the server; *options* are of its process."""
    command = [str(setup.java.program), f"-Xmx{setup.heap}", "-XX:+ExitOnOutOfMemoryError"]
    command += [*setup.java_options, "-cp", setup.jars.classpath, *_OPENS, setup.jars.main_class]
    command += [f"--home-dir={setup.home}", f"--config-dir={setup.home / 'conf'}"]
    # the number is on disk before there is a server: no kill can come in between
    script = 'echo $$ > "$0" && exec "$@"'
    with setup.log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - our own command line
            ["/bin/sh", "-c", script, str(setup.pid_file), *command, "--console-mode"],
            cwd=setup.home,
            env=_environment(setup),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            **options,
        )


def wait_until_ready(
    setup: Setup, password: Password, process: subprocess.Popen[bytes], seconds: float
) -> None:
    """Return when the server answers; its port is open a moment earlier.

    Raises:
        StoreError: it ended, or did not answer in time; with the end of its log.
    """
    until = time.monotonic() + seconds
    while not answers(setup.url, password):
        if process.poll() is not None:
            raise StoreError(
                f"Neo4j {setup.jars.version} ended while it started: {log_tail(setup.log)}",
                where=str(setup.log),
            )
        if time.monotonic() > until:
            raise StoreError(
                f"Neo4j {setup.jars.version} did not answer within {seconds:g} s: "
                f"{log_tail(setup.log)}",
                where=str(setup.log),
                retryable=True,
            )
        time.sleep(_POLL_SECONDS)


def answers(url: str, password: Password) -> bool:
    """Whether the server takes our password and a query."""
    import neo4j

    auth = neo4j.basic_auth(DEFAULT_USER, password.reveal())
    try:
        with neo4j.GraphDatabase.driver(url, auth=auth, connection_timeout=5.0) as driver:
            driver.verify_connectivity()
            return True
    except (neo4j.exceptions.DriverError, neo4j.exceptions.Neo4jError):
        return False


def stop(pid: int, ended: Callable[[], bool], seconds: float) -> bool:
    """Ask the process to end and wait; True if it did. Neo4j takes about 10 s for it."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return True
    until = time.monotonic() + seconds
    while not ended():
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def log_tail(log: Path) -> str:
    """The end of a log, which says why a server ended."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        return f"no log ({error.strerror})"
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("at ")]
    return "\n".join(lines)[-_LOG_TAIL:] or "its log is empty"


def _write_settings(setup: Setup) -> None:
    settings = {
        "server.default_listen_address": "127.0.0.1",
        "server.bolt.listen_address": f"127.0.0.1:{setup.port}",
        "server.bolt.advertised_address": f"127.0.0.1:{setup.port}",
        "server.http.enabled": "false",
        "server.https.enabled": "false",
        "server.memory.heap.initial_size": setup.heap,
        "server.memory.heap.max_size": setup.heap,
        "server.memory.pagecache.size": f"{max(128, _megabytes(setup.heap) // 2)}m",
        # One query may not take what all others need; a server without memory left ends.
        "db.memory.transaction.max": f"{_megabytes(setup.heap) // 2}m",
        "dbms.memory.transaction.total.max": f"{_megabytes(setup.heap) * 7 // 10}m",
        "dbms.usage_report.enabled": "false",
        "dbms.security.allow_csv_import_from_file_urls": "false",
        # signs of life: after twice that, a client takes a silent server for frozen
        "server.bolt.connection_keep_alive": "15s",
        # half a gigabyte of empty log files otherwise
        "db.tx_log.preallocate": "false",
        # what is in the data already is not kept in logs too: it was as large as the data
        "db.tx_log.rotation.retention_policy": "keep_none",
        **setup.settings,
    }
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    (setup.home / "conf" / "neo4j.conf").write_text(text, encoding="utf-8")


def _password(setup: Setup) -> Password:
    """The password of the server; it is set before its first start, and only then."""
    path = setup.password_file
    has_data = (setup.home / "data" / "databases").exists()
    if not path.exists():
        if has_data:
            raise StoreError(
                "the server's password is lost, its data are there",
                where=str(path),
                hint="put the file back, or remove the folder with the data",
            )
        # letters and digits only: Neo4j's tool takes other first characters for options
        _write_private(path, secrets.token_hex(16))
    check_private(path)
    if not has_data:
        # "@": the tool reads the file itself, so no list of processes has the password
        _admin(setup, "dbms", "set-initial-password", f"@{path}")
    return read_password(path)


def read_password(path: Path) -> Password:
    """The password in a private file."""
    return Password(path.read_text(encoding="utf-8").strip())


def _write_private(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)


def _admin(setup: Setup, *arguments: str) -> None:
    quick = ["-XX:TieredStopAtLevel=1", "-cp", setup.jars.classpath, *_OPENS, _ADMIN]
    completed = subprocess.run(  # noqa: S603 - our own command line
        [str(setup.java.program), *quick, *arguments],
        env=_environment(setup),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if completed.returncode:
        raise StoreError(f"Neo4j's admin tool failed: {completed.stderr.strip()[-400:]}")


def _environment(setup: Setup) -> dict[str, str]:
    """Without the variables that would be settings of ours or change the Java."""
    drop = ("NEO4J_", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    home = str(setup.home)
    return {**variables, "NEO4J_HOME": home, "NEO4J_CONF": f"{home}/conf"}
