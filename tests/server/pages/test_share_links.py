"""Links that show one run, and nothing else, for a while."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from full_run import sample_run
from page_forms import seal_of
from served import served

from divergraph.server.login.shares import ShareFile
from divergraph.server.settings import ServerSettings
from graphstore.errors import InputError, UnknownNameError
from graphstore.open_store import open_store


@pytest.fixture
def links(settings: ServerSettings) -> ShareFile:
    """The links of the server."""
    assert settings.shares is not None
    return ShareFile(settings.shares)


@pytest.fixture
def path(links: ShareFile) -> str:
    """The path of a link to ``first``."""
    return links.add("first", sample_run().run.created, "")[1]


def test_a_link_shows_its_run_without_a_login(team: httpx.Client, path: str) -> None:
    page = team.get(path)
    assert page.status_code == 200
    assert "a shared run, read-only" in page.text
    ways = [unescape(each) for each in re.findall(r'href="(/[^"]*)"', page.text)]
    assert ways
    for way in {each.partition("#")[0] for each in ways}:
        assert way.startswith((f"{path}/", f"{path}?", "/static/")) or way == path, way
        assert team.get(way).status_code == 200
    assert '<form method="post"' not in page.text
    assert "set-cookie" not in page.headers


def test_a_link_shows_nothing_else(team: httpx.Client, path: str) -> None:
    secret = path.removesuffix("/runs/first")
    for way in (
        *(f"{secret}{below}" for below in ("", "/", "/runs", "/runs/values", "/v1/runs", "/jobs")),
        *(f"{secret}{below}" for below in ("/v1/runs/first/ops", "/openapi.json", "/metrics")),
        f"{secret}/runs/first/../values",
        f"{secret}/runs/first%2F..%2Fvalues",
        f"{secret}//runs/values",
        "/shared/",
        "/shared//runs/first",
        f"/shared/{'A' * 43}/runs/first",
        path.replace("/shared/", "/shared/x"),
        *(f"{path}/ask/roles", f"{path}/ask/fusion-trial?against=values"),
    ):
        assert team.get(way).status_code == 404, way
    for way in (f"{path}/part", f"{path}/op?op=conv&values=output:0"):
        assert team.get(way).status_code == 403
    for method in ("POST", "DELETE", "PUT"):
        assert team.request(method, f"{path}/shares").status_code == 404


def test_a_link_ends(team: httpx.Client, links: ShareFile, path: str) -> None:
    made, other = links.add("first", sample_run().run.created, "ada", 1)
    assert team.get(other).status_code == 200
    links.revoke(made.id)
    assert team.get(other).status_code == 404
    assert team.get(path).status_code == 200
    with links._file.changing() as known:
        over = datetime.now(UTC) - timedelta(seconds=1)
        known[:] = [replace(each, ends=over.isoformat()) for each in known]
    assert team.get(path).status_code == 404
    assert links.all() == []
    with pytest.raises(UnknownNameError):
        links.revoke(made.id)


def test_a_link_is_not_to_another_run_of_the_name(tmp_path: Path) -> None:
    url, state = str(tmp_path / "store"), tmp_path / "state"
    with open_store(url) as store:
        store.save_run(sample_run("first"))
    state.mkdir()
    path = ShareFile(state / "links.json").add("first", sample_run().run.created, "")[1]
    with served(ServerSettings(url, tokens=tmp_path / "none", state=state)) as client:
        assert client.get(path).status_code == 200
        with open_store(url) as store:
            store.save_run(sample_run("first", "2026-02-02T00:00:00Z"), replace=True)
        answer = client.get(path)
        assert (answer.status_code, "is gone" in answer.text) == (404, True)


def test_only_a_hash_is_kept_for_the_owner_alone(links: ShareFile, path: str) -> None:
    assert links.path.stat().st_mode & 0o777 == 0o600
    assert path.split("/")[2] not in links.path.read_text()
    for days in (0, -1, 400):
        with pytest.raises(InputError):
            links.add("first", "", "", days)


def test_an_analyst_makes_and_revokes_one_on_the_page(own: httpx.Client) -> None:
    seal = seal_of(own.get("/runs/values"))
    made = own.post("/runs/values/shares", data={"seal": seal, "days": "2"})
    (address,) = re.findall(r'id="address" readonly value="([^"]+)"', made.text)
    assert own.get(urlsplit(address).path).status_code == 200
    assert urlsplit(address).netloc == own.base_url.netloc.decode()
    page = own.get("/runs/values")
    (name,) = re.findall(r'name="revoke" value="([0-9a-f]{8})"', page.text)
    assert own.post("/runs/first/shares", data={"seal": seal, "revoke": name}).status_code == 404
    answer = own.post("/runs/values/shares", data={"seal": seal, "revoke": name})
    assert answer.status_code == 303
    assert own.get(urlsplit(address).path).status_code == 404
    assert own.post("/runs/values/shares", data={"seal": seal, "days": "x"}).status_code == 400
    assert own.post("/runs/none/shares", data={"seal": seal, "days": "1"}).status_code == 404


def test_the_command_makes_lists_and_revokes(divergraph, tmp_path: Path, place: Path) -> None:
    told = ("serve", "--state", tmp_path / "state", "--store", place / "store", "share")
    made = divergraph(*told, "add", "first", "--days", "3", "--json").json
    assert made["path"].endswith("/runs/first")
    listed = divergraph(*told, "list", "--json").json
    assert listed["links"] == [made["link"]]
    assert divergraph(*told, "revoke", made["link"]["id"]).code == 0
    assert divergraph(*told, "list", "--json").json == {"links": []}
    assert divergraph(*told, "revoke", "none").code == 2
    assert divergraph(*told, "add", "none").code == 2


def test_notes_of_the_team_are_not_for_guests(own: httpx.Client, path: str) -> None:
    form = {"seal": seal_of(own.get("/runs/first")), "text": "ours alone"}
    assert own.post("/runs/first/op?op=conv", data=form).status_code == 303
    assert "ours alone" in own.get("/runs/first/op?op=conv").text
    for asked in ("levels", "ops"):
        answer = own.get(f"{path}/graph/{asked}")
        assert (answer.status_code, "ours alone" in answer.text) == (200, False)
    assert own.get(f"{path}/graph/levels?against=values").status_code == 404
    assert "values" not in own.get(f"{path}/graph?against=values").text
    assert own.get("/runs/first/graph/path").status_code == 200
    assert own.get(f"{path}/graph/path").status_code == 404
    guest = own.get(f"{path}/op?op=conv")
    assert (guest.status_code, "ours alone" in guest.text) == (200, False)
