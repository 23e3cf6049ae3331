"""A server with runs to show, and what a browser sends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from full_run import sample_run
from headless_browser import Browser, browser_of_tests
from hostile_run import hostile_run
from page_forms import seal_of
from served import served
from valued_run import kept_values

from divergraph.server.settings import Limits, ServerSettings
from divergraph.server.tokens import TokenFile, UserRole
from graphstore.open_store import open_store

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with browser_of_tests() as browser:
        yield browser


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store: ``first``, ``hostile``, the graph ``net``; and ``values``, whose dumps
    lie there, and its model as the graph ``alone``."""
    folder = tmp_path_factory.mktemp("pages")
    with open_store(kept_values(folder)) as store:
        store.save_run(sample_run("first"))
        store.save_run(hostile_run())
        store.save_graph(sample_run().device, "net")
        store.save_graph(store.run_data("values").golden, "alone")
    return folder


@pytest.fixture(scope="module")
def settings(place: Path) -> ServerSettings:
    """A server for this machine, which reads below that folder; it starts no job."""
    return ServerSettings(
        str(place / "store"),
        tokens=place / "tokens",
        state=place / "state",
        roots=(("data", place),),
        limits=Limits(jobs=0),
    )


@pytest.fixture(scope="module")
def own(settings: ServerSettings) -> Iterator[httpx.Client]:
    """A browser on this machine."""
    with served(settings) as client:
        client.headers.update(BROWSER)
        yield client


@pytest.fixture(scope="module")
def tokens(settings: ServerSettings) -> dict[UserRole, str]:
    """A token for each role."""
    file = TokenFile(settings.tokens)
    return {role: file.add(role.value, role) for role in UserRole}


@pytest.fixture(scope="module")
def team(settings: ServerSettings, tokens) -> Iterator[httpx.Client]:
    """A browser somewhere else, of nobody yet."""
    with served(replace(settings, behind_proxy=True)) as client:
        client.headers.update(BROWSER)
        yield client


@pytest.fixture(scope="module")
def log_in(team: httpx.Client) -> Callable[[str], dict[str, str]]:
    """Logs in with a token; gives the header that a browser then sends."""

    def log_in(token: str) -> dict[str, str]:
        form = {"seal": seal_of(team.get("/login")), "token": token}
        answer = team.post("/login?next=/runs/first", data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/runs/first")
        cookie = answer.headers["set-cookie"]
        team.cookies.clear()
        return {"Cookie": cookie.partition(";")[0]}

    return log_in
