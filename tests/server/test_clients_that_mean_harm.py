"""Clients that send too much, too slowly, or nothing at all: others are still answered."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from full_run import sample_run
from served import served

from divergraph.server.settings import Limits, ServerSettings
from graphstore.open_store import open_store

LIMITS = Limits(head=4096, head_seconds=0.3, unread_seconds=0.3, body=2000, body_seconds=0.3)
HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    place = tmp_path_factory.mktemp("harm")
    with open_store(str(place / "store")) as store:
        store.save_run(sample_run("first"))
    settings = ServerSettings(str(place / "store"), tokens=place / "none", limits=LIMITS)
    with served(settings) as client:
        yield client


def connected(client: httpx.Client) -> socket.socket:
    raw = socket.create_connection((client.base_url.host, client.base_url.port))
    raw.settimeout(60)
    return raw


def told(raw: socket.socket) -> bytes:
    """All that the server still says before it hangs up."""
    parts = []
    try:
        while part := raw.recv(65536):
            parts.append(part)
    except ConnectionResetError:  # it has hung up on what we sent
        pass
    return b"".join(parts)


LARGE = {
    "one header": HEAD + b"x: " + b"a" * 5000 + b"\r\n\r\n",
    "many headers": HEAD + b"x: a\r\n" * 1000 + b"\r\n",
    "a long address": b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "a name without an end": HEAD + b"a" * 9000,
    "a value without an end": HEAD + b"x: " + b"a" * 9000,
}


@pytest.mark.parametrize("name", LARGE)
def test_a_head_that_is_too_large_is_refused(own: httpx.Client, name: str) -> None:
    with connected(own) as raw:
        for at in range(0, len(LARGE[name]), 1500):
            raw.sendall(LARGE[name][at : at + 1500])
            time.sleep(0.001)  # pieces of their own, as a network has them
        assert told(raw).startswith(b"HTTP/1.1 431 ")
    assert own.get("/healthz").status_code == 200


@pytest.mark.parametrize("sent", [b"", b"GET", HEAD])
def test_a_head_that_does_not_end_is_given_up(own: httpx.Client, sent: bytes) -> None:
    with connected(own) as raw:
        raw.sendall(sent)
        assert told(raw).startswith(b"HTTP/1.1 408 ")


def test_so_is_that_of_a_second_request(own: httpx.Client) -> None:
    with connected(own) as raw:
        raw.sendall(HEAD + b"\r\n")
        assert raw.recv(65536).startswith(b"HTTP/1.1 200 ")
        raw.sendall(HEAD)
        assert b"HTTP/1.1 408 " in told(raw)


def test_a_body_that_does_not_come_is_given_up(own: httpx.Client) -> None:
    with connected(own) as raw:
        raw.sendall(b"POST /v1/query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        assert raw.recv(65536).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS where there is none
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET  HTTP/1.1\r\nhost: localhost\r\n\r\n",
        HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n",
        HEAD + b"x y: 1\r\n\r\n",
        HEAD + b"x: \x00\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(own: httpx.Client, sent: bytes) -> None:
    with connected(own) as raw:
        raw.sendall(sent)
        assert told(raw).split(b"\r\n")[0] in (b"HTTP/1.1 400 Bad Request", b"")
    assert own.get("/healthz").status_code == 200


def ask_for_ever(raw: socket.socket) -> None:
    while True:
        raw.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 20)
        time.sleep(0.01)


def test_an_answer_that_is_not_read_is_given_up(own: httpx.Client) -> None:
    """Else whoever asks and never reads would fill the memory of the server."""
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(60)
        raw.connect((own.base_url.host, own.base_url.port))
        with pytest.raises(OSError, match=r"reset|pipe"):
            ask_for_ever(raw)
    assert own.get("/healthz").status_code == 200


def test_hosts_that_are_not_its_names(own: httpx.Client) -> None:
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        "",
        "evil@localhost",
        "[::1",
        "[",
        "localhost:80:80",
        "localhost\r\nhost: localhost",
    ):
        head = f"GET /v1/runs HTTP/1.1\r\nhost: {host}\r\n\r\n".encode()
        with connected(own) as raw:
            raw.sendall(head)
            assert raw.recv(65536).split(b" ")[1] in (b"400", b"421"), host
    for host in ("localhost", "127.0.0.1:80", "[::1]:8321", "LOCALHOST"):
        assert own.get("/v1/runs", headers={"Host": host}).status_code == 200, host


def test_a_page_from_nowhere_changes_nothing(own: httpx.Client) -> None:
    for origin in ("http://[", "null", "", "http://evil.example", "http://localhost.evil.example"):
        answer = own.delete("/v1/runs/none", headers={"Origin": origin})
        assert answer.status_code == 403, origin


def running(client: httpx.Client) -> int:
    """Requests that are being answered, but for the one that asks."""
    last = client.get("/metrics").text.splitlines()[-1]
    return int(last.removeprefix("divergraph_requests_running ")) - 1


def until_running(client: httpx.Client, wanted: int) -> None:
    end = time.monotonic() + 60
    while running(client) != wanted:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_query_of_a_client_that_went_is_stopped(own: httpx.Client) -> None:
    """And what still waits for a turn is never begun."""
    ranges = " ".join(f"UNWIND range(1, 20000) AS {name}" for name in "abc")
    text = f"{ranges} WITH a, b, c WHERE (a * b + c) % 7919 = 1 RETURN sum(a % 13 + b % 11)"
    body = json.dumps({"cypher": text, "timeout": 300}).encode()
    head = f"POST /v1/query HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    many = Limits().workers + 2
    asking = [connected(own) for _ in range(many)]
    for raw in asking:
        raw.sendall(head.encode() + body)
    until_running(own, many)
    for raw in asking:
        raw.close()
    until_running(own, 0)
    assert own.post("/v1/query", json={"cypher": "RETURN 1 AS one"}).json()["rows"] == [[1]]
