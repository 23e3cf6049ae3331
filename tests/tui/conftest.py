"""Small made runs in real embedded stores, and the app on them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from browsing import SIZE, Browser
from layered_run import HOSTILE, analysed_run, made_run
from places_on_screen import kept_two_runs
from textual.pilot import Pilot
from textual.worker import WorkerCancelled
from valued_run import kept_values
from whole_run import kept_whole

from graphstore.contract import GraphStore
from graphstore.model import DType, InputRef, Op, Tensor, TensorRef
from graphstore.open_store import open_store
from tui.app import DivergraphApp
from tui.session import Session
from tui.settings import Settings
from tui.style.glyphs import SETS


@pytest.fixture(autouse=True)
def messages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said can still be read: on a busy machine five seconds pass in no time."""
    monkeypatch.setattr(DivergraphApp, "NOTIFICATION_TIMEOUT", 600.0)


@pytest.fixture(scope="session")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the diverging run ``14`` only."""
    url = str(tmp_path_factory.mktemp("store") / "one")
    with open_store(url) as store:
        store.save_run(made_run())
    return url


@pytest.fixture
def hostile_name() -> str:
    """A name meant to act on the terminal, or as markup."""
    return HOSTILE


@pytest.fixture(scope="session")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the run ``14`` whose model has such a name."""
    url = str(tmp_path_factory.mktemp("store") / "hostile")
    with open_store(url) as store:
        store.save_run(made_run(model=HOSTILE))
    return url


@pytest.fixture(scope="session")
def analysed_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the analysed run ``15`` only."""
    url = str(tmp_path_factory.mktemp("store") / "analysed")
    with open_store(url) as store:
        store.save_run(analysed_run())
    return url


@pytest.fixture(scope="session")
def fused_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The run ``14`` with its golden ops in a row; nothing is known of its files."""
    data = made_run()
    ops: list[Op] = []
    for op in data.golden.ops:
        taken = InputRef(ops[-1].id, TensorRef(ops[-1].id, 0)) if ops else InputRef("x", None)
        ops.append(replace(op, inputs=(taken,)))
    url = str(tmp_path_factory.mktemp("store") / "fused")
    with open_store(url) as store:
        golden = replace(data.golden, ops=tuple(ops), inputs=(Tensor("x", DType.FLOAT32, (1, 64)),))
        store.save_run(replace(data, golden=golden))
    return url


@pytest.fixture(scope="session")
def several_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with two runs, ``clean`` newer than ``14``, and an imported graph."""
    url = str(tmp_path_factory.mktemp("store") / "several")
    with open_store(url) as store:
        store.save_run(made_run())
        store.save_run(made_run("clean", layers=2, created="2026-02-01T09:00:00Z"))
        store.save_graph(made_run().device, "bert [v2]")
    return url


@pytest.fixture(scope="session")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a run whose models and dumps are there, and the same run with them gone."""
    return kept_whole(tmp_path_factory.mktemp("parts"))


@pytest.fixture
def whole_store_to_change(whole_store: str, tmp_path: Path) -> str:
    """The same store, for one test alone: it may keep something with a run."""
    return str(shutil.copytree(whole_store, tmp_path / "store"))


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the run ``15`` whose errors were split, and ``14`` of the same models."""
    return kept_two_runs(tmp_path_factory.mktemp("windows"))


@pytest.fixture(scope="session")
def valued_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the run ``values``, whose dumps were made by hand."""
    return kept_values(tmp_path_factory.mktemp("values"))


MakeApp = Callable[..., DivergraphApp]


@pytest.fixture
def make_app(tmp_path: Path) -> MakeApp:
    """Makes the app on a store; exports and copies go to the test's own folder."""

    def make(
        url: str, start: str | None = None, glyphs: str = "unicode", theme: str = "dark"
    ) -> DivergraphApp:
        def connect() -> GraphStore:
            return open_store(url)

        settings = Settings(
            glyphs=SETS[glyphs], theme=theme, export_dir=tmp_path, state_dir=tmp_path / "state"
        )
        session = Session(connect, ".divergraph")
        session.jumps.places.clear()
        return DivergraphApp(session, settings, start)

    return make


_LOOKS = 3
"""So many looks in a row must find the screen at rest."""


@pytest.fixture
def settle() -> Callable[[Pilot[None]], object]:
    """Waits until every answer is drawn: no worker, no delayed question, no message left."""

    async def wait(pilot: Pilot[None]) -> None:
        app, looks = pilot.app, 0
        for _ in range(400):
            with suppress(WorkerCancelled):  # a newer question took its place
                await app.workers.wait_for_complete()
            await pilot.pause()
            screen = app.screen
            busy = any(not worker.is_finished for worker in app.workers)
            busy = busy or getattr(screen, "waiting", False) or app.typed_ahead.waiting
            # On a machine with other work a screen may be at rest between two messages.
            looks = 0 if busy else looks + 1
            if looks == _LOOKS:
                return
            await pilot.pause(0.01)
        raise AssertionError("the screen never came to rest")

    return wait


@pytest.fixture
def browse(make_app: MakeApp, settle) -> Callable[..., Browser]:
    """Starts the app on a store, presses keys, waits after each."""

    def start(url: str, start: str | None = None, size: tuple[int, int] = SIZE) -> Browser:
        return Browser(make_app(url, start), settle, size)

    return start
