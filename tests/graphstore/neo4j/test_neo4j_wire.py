"""A real server that speaks TLS only: trust, refusals, limits, and wires that break."""

from __future__ import annotations

import socket
import threading

import pytest
from server_statements import run_alone

from graphstore.errors import QueryError, StoreError
from graphstore.neo4j.connection import Connection
from graphstore.neo4j.server_errors import check_server_version
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough

needs_server = [pytest.mark.neo4j, pytest.mark.xdist_group("neo4j-access")]


@pytest.mark.parametrize(
    "agent",
    ["Neo4j/5.26.0", "Neo4j/5.26.30", "Neo4j/2026.08.1", "Neo4j/5.27-aura", "Neo4j/dev"],
)
def test_versions_that_will_do(agent):
    check_server_version(agent, "bolt://h")


@pytest.mark.parametrize("agent", ["Neo4j/5.25.1", "Neo4j/4.4.40", "Neo4j/v5.11.0 compatible"])
def test_versions_that_are_too_old(agent):
    with pytest.raises(StoreError, match=r"too old \(Neo4j 5.26 or newer is needed\)"):
        check_server_version(agent, "bolt://h")


def test_a_host_nobody_knows():
    with (
        Connection("neo4j://no-such-host.invalid", "neo4j", "x", None) as wire,
        pytest.raises(StoreError, match=r"no host is named 'no-such-host.invalid'"),
    ):
        wire.read("RETURN 1", {})


def test_something_else_listens():
    """It ends the connection at once, as a server that wants TLS does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def slam() -> None:
            near, _ = listener.accept()
            near.recv(64)
            near.close()

        threading.Thread(target=slam, daemon=True).start()
        with (
            Connection(f"bolt://127.0.0.1:{port}", "neo4j", "x", None) as wire,
            pytest.raises(StoreError, match=r"ends the connection at once.*bolt\+s://"),
        ):
            wire.read("RETURN 1", {})


class TestServer:
    """Against the server of ``tls_server``."""

    pytestmark = needs_server

    @pytest.fixture
    def connect(self, tls_server):
        """Connections by scheme or port, closed at the end."""
        server, _ = tls_server
        made = []

        def connect(scheme="bolt+ssc", port=None, user=server.user, password=server.password):
            port = port or server.url.rpartition(":")[2]
            made.append(
                Connection(f"{scheme}://127.0.0.1:{port}", user, password, None, "the test")
            )
            return made[-1]

        yield connect
        for connection in made:
            connection.close()

    @pytest.mark.parametrize("scheme", ["bolt+ssc", "neo4j+ssc"])
    def test_any_certificate_will_do(self, connect, scheme):
        assert connect(scheme).read("RETURN 1 AS one", {}).rows == ((1,),)

    @pytest.mark.parametrize("scheme", ["bolt+s", "neo4j+s"])
    def test_a_certificate_nobody_vouches_for(self, connect, scheme):
        with pytest.raises(StoreError, match=r"not trusted.*SSL_CERT_FILE.*\+ssc://"):
            connect(scheme).read("RETURN 1", {})

    @pytest.mark.parametrize("scheme", ["bolt+s", "neo4j+s"])
    def test_a_certificate_of_a_named_authority(self, tls_server, connect, scheme, monkeypatch):
        monkeypatch.setenv("SSL_CERT_FILE", str(tls_server[1]))
        assert connect(scheme).read("RETURN 1 AS one", {}).rows == ((1,),)

    @pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
    def test_no_tls_where_it_is_needed(self, connect, scheme):
        with pytest.raises(StoreError, match=rf"wants TLS.*{scheme}\+s://"):
            connect(scheme).read("RETURN 1", {})

    def test_the_file_lets_us_in(self, tls_server, neo4j_toml):
        server, _ = tls_server
        host = server.url.rpartition("/")[2]
        neo4j_toml(f'["{host}"]\npassword = "{server.password}"\ndatabase = "neo4j"')
        with open_store(server.url) as store:
            assert store.runs() == []
            assert store.url == f"{server.url}/neo4j"

    def test_too_many_wrong_passwords(self, connect):
        """The message says where the password is from, never what it is."""
        run_alone(connect(), "CREATE USER locked SET PASSWORD 'rightright'")
        for _ in range(3):
            with pytest.raises(StoreError, match="refuses the user name or password, from the"):
                connect(user="locked", password="wrongwrong").read("RETURN 1", {})
        with pytest.raises(StoreError, match="has locked this user") as caught:
            connect(user="locked", password="wrongwrong").read("RETURN 1", {})
        assert "wrongwrong" not in f"{caught.value} {caught.value.__cause__}"
        assert caught.value.retryable

    def test_a_first_password_must_be_changed(self, connect):
        run_alone(connect(), "CREATE USER fresh SET PASSWORD 'rightright'")
        with pytest.raises(StoreError, match="first password changed"):
            connect(user="fresh", password="rightright").read("RETURN 1", {})

    def test_more_memory_than_the_server_allows(self, connect):
        """Said at once: asked again, it would need as much."""
        with pytest.raises(QueryError, match="more memory than the server allows"):
            connect().read("UNWIND range(1, 10000000) AS x RETURN collect(x + '')", {})
        with pytest.raises(StoreError, match="more memory than the server allows"):
            connect().define("UNWIND range(1, 10000000) AS x CREATE (:Big {x: x})")

    def test_a_reader_does_not_notice_a_lost_connection(self, connect, wire):
        """Cut in the middle of the rows; what comes is whole, each row once."""
        connection = connect(port=wire.port)
        rows = "UNWIND range(1, 20000) AS x RETURN x"
        connection.read("RETURN 1", {})
        connection.close()
        connection = connect(port=wire.port)
        wire.cut_after(100_000)
        result = connection.read(rows, {})
        assert wire.cuts == 1
        assert [x for (x,) in result.rows] == list(range(1, 20001))

    def test_a_writer_does_not_notice_either(self, connect, wire):
        connection = connect(port=wire.port)
        wire.cut_after(5_000)
        for number in range(40):
            connection.change(
                lambda run, number=number: run("CREATE (:Kept {number: $number})", number=number)
            )
        assert wire.cuts == 1
        kept = connection.read("MATCH (k:Kept) RETURN k.number AS n ORDER BY n", {})
        assert [n for (n,) in kept.rows] == list(range(40))

    def test_a_handshake_that_breaks(self, connect, wire):
        wire.cut_after(0)
        with pytest.raises(StoreError, match=r"ends the TLS handshake.*may speak none") as caught:
            connect(port=wire.port).read("RETURN 1", {})
        assert caught.value.retryable
