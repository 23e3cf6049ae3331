"""A user's folders of their own, a server that wants TLS, and a wire that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from benchmarks.scale.local_neo4j import NEWEST, LocalServer, local_server


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Configuration and data in a fresh folder, and no credentials in the environment."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("NEO4J_USERNAME", "NEO4J_PASSWORD", "DIVERGRAPH_STORE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def neo4j_toml(folders: Path):
    """Writes the file with passwords, as private as *mode* says."""

    def write(text: str, mode: int = 0o600) -> Path:
        path = folders / "config" / "divergraph" / "neo4j.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    return write


@pytest.fixture(scope="session")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalServer, Path]]:
    """A server that speaks TLS only, and the certificate of its authority.

    Its memory for one transaction is small, and three wrong passwords lock a user.
    """
    folder = tmp_path_factory.mktemp("tls")
    certificates = folder / "certificates"
    certificates.mkdir()
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(certificates / "private.key")
    issued.cert_chain_pems[0].write_to_path(certificates / "public.crt")
    authority.cert_pem.write_to_path(folder / "authority.pem")
    settings = {
        "server.bolt.tls_level": "REQUIRED",
        "dbms.ssl.policy.bolt.enabled": "true",
        "dbms.ssl.policy.bolt.base_directory": str(certificates),
        "dbms.ssl.policy.bolt.client_auth": "NONE",
        "dbms.security.auth_max_failed_attempts": "3",
        "db.memory.transaction.max": "20m",
    }
    with local_server(folder / "home", version=NEWEST, settings=settings) as server:
        yield server, folder / "authority.pem"


class Wire:
    """Passes bytes on to a server; :meth:`cut_after` breaks the next connections."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._left: list[int] = []
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, *sizes: int) -> None:
        """The next connections end after so many bytes of the server's."""
        self._left = list(sizes)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed at the test's end
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._to)
                size = self._left.pop(0) if self._left else None
                threading.Thread(target=self._pass, args=(near, far, None), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, size), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, left: int | None) -> None:
        with contextlib.suppress(OSError):  # the other direction was cut
            while data := source.recv(4096):
                if left is not None:
                    left -= len(data)
                    if left < 0:
                        self.cuts += 1
                        break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):  # it is closed already
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def wire(tls_server: tuple[LocalServer, Path]) -> Iterator[Wire]:
    server, _ = tls_server
    wire = Wire(int(server.url.rpartition(":")[2]))
    yield wire
    wire.close()
