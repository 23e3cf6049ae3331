"""The picture of the graph in a real browser: unfolded, gone through, found in, linked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from headless_browser import Browser, Page
from served import served

from divergraph.server.settings import ServerSettings

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.thorough]
READY = "document.querySelector('[data-graph]')?.dataset.ready"
INK = """
[...document.querySelectorAll('.pane-picture > canvas:first-child')].map(each => {
  const dots = each.getContext('2d').getImageData(0, 0, each.width, each.height).data;
  return new Set(new Uint32Array(dots.buffer)).size;
})
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.page(1500, 900) as page:
        yield page


def opened(page: Page, client: httpx.Client, way: str) -> None:
    page.visit(f"{str(client.base_url).rstrip('/')}{way}")
    page.until(READY)


def test_the_origin_is_selected_and_its_originals_are_lit(page: Page, own: httpx.Client) -> None:
    opened(page, own, "/runs/first/graph")
    page.until("document.querySelector('.graph-detail #why')")
    assert page.run("location.search") == "?op=conv"
    assert page.texts(".graph-detail h2")[0] == "conv"
    assert "adds no bias" in page.texts(".graph-detail #why")[0]
    assert min(page.run(INK)) > 20, "both sides are drawn"
    page.click("[data-follow]")
    page.until(
        "document.querySelector('.graph-status').textContent.startsWith('The error of conv')"
    )
    assert page.run("location.search") == "?op=conv&path=worst"
    page.click(".graph-detail #lineage a.op")  # the first original
    page.until("location.search.includes('side=golden')")
    assert page.texts(".graph-detail h2")[0] == "conv"
    assert page.said == []


def test_an_address_shows_what_it_names(page: Page, own: httpx.Client) -> None:
    opened(page, own, "/runs/first/graph?op=block/relu&side=golden&colour=introduced")
    page.until("document.querySelector('.graph-detail #lineage')")
    assert page.texts(".graph-detail h2")[0] == "block/relu"
    assert page.run("document.querySelector('[data-colour]').value") == "introduced"
    opened(page, own, "/runs/first/graph?op=nothing")
    assert "nothing" in page.texts(".graph-status")[0]


def test_it_is_found_and_gone_through_by_keys(page: Page, own: httpx.Client) -> None:
    opened(page, own, "/runs/first/graph?op=conv")
    page.run("document.querySelector('.pane canvas').focus()")
    page.press("ArrowDown")
    page.until("document.querySelector('.graph-status').textContent.startsWith('trans,')")
    page.press("Enter")
    page.until("location.search === '?op=trans'")
    page.press("/")
    page.write("pool")
    page.until("document.querySelector('.graph-hits button')")
    page.press("Enter")
    page.until("location.search === '?op=pool'")
    page.click(".pane[data-side=device] .pane-table summary")
    assert "pool" in page.texts(".pane[data-side=device] tbody th")
    assert page.said == []


def test_what_changed_since_another_run_is_shown(page: Page, own: httpx.Client) -> None:
    opened(page, own, "/runs/first/graph?against=first")
    page.until("location.search.includes('op=conv')")
    assert page.run("document.querySelector('[data-colour]').value") == "change"
    assert page.texts(".graph-changes li")[0].startswith("conv is still guilty")
    assert "still guilty" in page.texts(".graph-status")[0]
    page.click(".pane[data-side=device] .pane-table summary")
    assert "still guilty" in " ".join(page.texts(".pane[data-side=device] tbody td"))
    assert page.said == []


def test_a_part_is_marked_beside_the_picture(page: Page, own: httpx.Client) -> None:
    opened(page, own, "/runs/values/graph?op=relu")
    mark = "[...document.querySelectorAll('.graph-detail .actions a')].find(a => /{}/.test(a.text))"
    page.until(mark.format("Start"))
    page.run(mark.format("Start") + ".click()")
    page.until(f"location.search.includes('start=relu') && {READY}")
    page.until(mark.format("End"))
    page.run(mark.format("End") + ".click()")
    page.until("location.search.includes('end=relu') && document.querySelector('.marks-bar')")
    page.until(
        "document.querySelector('[data-part-words]').textContent.startsWith('The part: 1 op')"
    )
    assert page.texts(".graph-part button")[0] == "Download the part"
    page.click(".marks-bar a:not(.op)")
    page.until("document.querySelector('h1')?.textContent === 'A part of the model'")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_small_screen_shows_one_below_the_other(
    browser: Browser, settings: ServerSettings, dark: bool, tmp_path: Path
) -> None:
    with served(settings) as client, browser.page(400, 800, dark=dark) as page:
        opened(page, client, "/runs/first/graph")
        page.until("document.querySelector('.graph-detail #why')")
        assert page.run("document.documentElement.scrollWidth") <= 400
        assert page.said == []
