"""Who may ask a server, and what it refuses before it answers anything."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from full_run import sample_run
from served import served

from divergraph.server.settings import Limits, ServerSettings
from divergraph.server.tokens import TokenFile, UserRole
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough

LARGE, DEEP = b" " * (1 << 20) + b"{}", b"[" * 100_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with two runs."""
    place = str(tmp_path_factory.mktemp("served") / "store")
    with open_store(place) as opened:
        for name in ("first", "second"):
            opened.save_run(sample_run(name))
    return place


@pytest.fixture
def tokens(tmp_path: Path) -> dict[UserRole, str]:
    """A token for each role, in the file ``tokens``."""
    file = TokenFile(tmp_path / "tokens")
    return {role: file.add(role.value, role) for role in UserRole}


@pytest.fixture
def team(store: str, tokens: dict[UserRole, str], tmp_path: Path) -> Iterator[httpx.Client]:
    """A server that others than this machine's users reach."""
    with served(ServerSettings(store, behind_proxy=True, tokens=tmp_path / "tokens")) as client:
        yield client


@pytest.fixture
def own(store: str, tmp_path: Path) -> Iterator[httpx.Client]:
    """A server for this machine."""
    with served(ServerSettings(store, tokens=tmp_path / "none")) as client:
        yield client


def status(client: httpx.Client, method: str, url: str, token: str, **more: object) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return client.request(method, url, headers=headers, **more).status_code


def test_without_a_token_nobody_is_told_anything(team: httpx.Client) -> None:
    for url in ("/v1/runs", "/v1/runs/first/ops", "/metrics", "/openapi.json", "/nowhere"):
        answer = team.get(url)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["detail"] == "a valid token is needed"
    assert status(team, "GET", "/v1/runs", "dg_guessed") == 401
    assert team.get("/healthz").text == "alive\n"


def test_each_role_may_do_what_it_is_for(team: httpx.Client, tokens) -> None:
    wanted = {"json": {"name": "second"}}
    for role, asks, renames in (("reader", 200, 403), ("analyst", 200, 409), ("admin", 200, 409)):
        token = tokens[UserRole(role)]
        assert status(team, "GET", "/v1/runs/first/origins", token) == asks
        assert status(team, "PUT", "/v1/runs/first/name", token, **wanted) == renames
    for role in (UserRole.READER, UserRole.ANALYST):
        assert status(team, "DELETE", "/v1/runs/first", tokens[role]) == 403
    assert status(team, "DELETE", "/v1/runs/none", tokens[UserRole.ADMIN]) == 404


def test_a_token_ends_with_its_removal(team: httpx.Client, tokens, tmp_path: Path) -> None:
    token = tokens[UserRole.READER]
    assert status(team, "GET", "/v1/runs", token) == 200
    TokenFile(tmp_path / "tokens").remove("reader")
    assert status(team, "GET", "/v1/runs", token) == 401


def test_tokens_are_kept_as_hashes_for_their_owner(tokens, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    assert file.stat().st_mode & 0o777 == 0o600
    assert not any(token in file.read_text() for token in tokens.values())


def test_a_stranger_s_page_cannot_ask(own: httpx.Client) -> None:
    """Neither under a name of its own that means 127.0.0.1, nor as a form that it sends."""
    assert own.get("/v1/runs", headers={"Host": "evil.example:8321"}).status_code == 421
    assert own.get("/v1/runs", headers={"Host": "localhost:1"}).status_code == 200
    for hosts in (b"", b"Host: localhost\r\nHost: evil.example\r\n"):
        with socket.create_connection((own.base_url.host, own.base_url.port or 80)) as raw:
            raw.sendall(b"GET /v1/runs HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n")
            assert raw.recv(12) == b"HTTP/1.1 400"
    for origin in ("https://evil.example", "null"):
        answer = own.delete("/v1/runs/first", headers={"Origin": origin})
        assert answer.status_code == 403
    assert own.get("/v1/runs/first").status_code == 200


@pytest.mark.parametrize(
    ("method", "url", "body", "code", "said"),
    [
        ("GET", "/v1/runs/nope/ops", None, 404, "no run named 'nope'"),
        ("GET", "/v1/runs/first/ops?wher=x", None, 400, "there is no such parameter"),
        ("GET", "/v1/runs/first/ops?limit=0", None, 400, "0 is not in the range x>=1."),
        ("GET", "/v1/runs/first/ops?limit=1&limit=2", None, 400, "a parameter is given twice"),
        ("GET", "/v1/runs/first/ops?where=cos<<", None, 400, "needs a number, not '<'"),
        ("GET", "/v1/runs/first/ops?after=nope", None, 404, "no op in this list named 'nope'"),
        ("GET", "/v1/runs/first/between?start=conv", None, 400, "a parameter is missing"),
        ("GET", "/v1/runs/first/trace?op=%1b[2J", None, 404, "no op named '\\x1b[2J'"),
        ("GET", "/v1/runs/..%2f..%2fetc/ops", None, 404, "Not Found"),
        ("GET", "/v1/nowhere", None, 404, "Not Found"),
        ("POST", "/v1/runs", None, 405, "Method Not Allowed"),
        ("POST", "/v1/query", b"{", 400, "the body is no JSON"),
        ("POST", "/v1/query", b"[]", 400, "the body is no JSON object"),
        pytest.param("POST", "/v1/query", DEEP, 400, "the body is no JSON", id="deep"),
        (
            "POST",
            "/v1/query",
            b'{"cypher": "RETURN 1", "file": "x"}',
            400,
            "there is no such field",
        ),
        ("POST", "/v1/query", b'{"cypher": "RETURN 1", "limit": 1e999}', 400, "up to 10000"),
        ("POST", "/v1/query", b'{"cypher": "RETURN"}', 400, ""),
        pytest.param("POST", "/v1/query", LARGE, 413, "more than 1048576 bytes", id="large"),
        ("PUT", "/v1/runs/first/name", b'{"name": "../up"}', 400, "cannot be a name"),
    ],
)
def test_what_cannot_be_answered(
    own: httpx.Client, method: str, url: str, body: bytes | None, code: int, said: str
) -> None:
    answer = own.request(method, url, content=body)
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem["status"]) == (code, code)
    assert said in problem["detail"]
    assert "\x1b" not in answer.text


def test_too_many_requests_are_refused(store: str, tmp_path: Path) -> None:
    limits = Limits(rate=0.01, burst=3)
    with served(ServerSettings(store, tokens=tmp_path / "none", limits=limits)) as client:
        assert [client.get("/v1/queries").status_code for _ in range(5)] == [200] * 3 + [429] * 2


def test_files_outside_the_roots_are_not_read(tmp_path: Path) -> None:
    """Nor through a link inside of them."""
    from valued_run import kept_values

    runs = tmp_path / "runs"
    runs.mkdir()
    store = kept_values(runs)
    question = "/v1/runs/values/tensor?op=relu&top=1"
    for root, code in ((runs, 200), (tmp_path / "else", 403)):
        root.mkdir(exist_ok=True)
        settings = ServerSettings(store, roots=(("r", root),), tokens=tmp_path / "none")
        with served(settings) as client:
            answer = client.get(question)
            assert answer.status_code == code
    assert str(tmp_path) not in answer.text
    outside = tmp_path / "else" / "secret.npy"
    outside.touch()
    (runs / "device" / "link.npy").symlink_to(outside)
    settings = ServerSettings(store, roots=(("r", runs),), tokens=tmp_path / "none")
    with served(settings) as client:
        assert client.get(question).status_code == 403
