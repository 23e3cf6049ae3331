"""The picture of a graph as a file, in a real browser: it opens without a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from full_run import sample_run
from headless_browser import Browser
from hostile_run import hostile_run

from divergraph.present.export_file import export
from divergraph.present.html import graph_page
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.open_store import open_store

READY = "document.querySelector('[data-graph]').dataset.ready"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    opened = open_store(tmp_path_factory.mktemp("graph") / "store")
    for run in (sample_run("first"), hostile_run()):
        opened.save_run(run)
    opened.save_graph(sample_run().device, "net")
    return opened


@pytest.mark.browser
@pytest.mark.thorough
@pytest.mark.xdist_group("browser")
def test_it_is_gone_through_as_on_a_server(
    browser: Browser, store: GraphStore, tmp_path: Path
) -> None:
    export(store, "first", tmp_path / "graph.html", against="first")
    with browser.page(1500, 900) as page:
        page.open(tmp_path / "graph.html")
        page.until(READY)
        assert page.run("location.hash") == "#op=conv"
        assert "adds no bias" in page.texts(".graph-detail #why")[0]
        assert page.texts(".graph-changes li")[0].startswith("conv is still guilty")
        page.click("[data-follow]")
        page.until("location.hash.includes('path=worst')")
        assert "goes over" in page.texts(".graph-status")[0]
        page.click(".graph-detail a.op")  # its first original
        page.until("location.hash.includes('side=golden')")
        page.press("/")
        page.write("POOL")
        page.until("document.querySelector('.graph-hits button')")
        page.press("Enter")
        page.until("location.hash.includes('op=pool')")
        assert (page.asked, page.said) == ([], [])


@pytest.mark.browser
@pytest.mark.thorough
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("target", ["hostile", "net"])
def test_names_stay_text_and_graphs_alone_are_shown(
    browser: Browser, store: GraphStore, tmp_path: Path, target: str
) -> None:
    export(store, target, tmp_path / "graph.html")
    with browser.page(400, 800, dark=True) as page:
        page.open(tmp_path / "graph.html")
        page.until(READY)
        page.click(".pane-table summary")
        page.click(".pane-table tbody button")
        page.until("document.querySelector('.graph-detail h2')")
        assert page.run("document.documentElement.scrollWidth") <= 400
        assert (page.asked, page.said) == ([], [])


def test_what_no_browser_opens_is_refused(
    store: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="only the picture"):
        export(store, "first", tmp_path / "graph.json", against="first")
    monkeypatch.setattr(graph_page, "MOST_OPS", 3)
    with pytest.raises(InputError, match="too many for a file"):
        export(store, "first", tmp_path / "graph.html")
    assert list(tmp_path.iterdir()) == []
