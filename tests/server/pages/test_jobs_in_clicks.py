"""The three jobs people come for, from the first page on in a real browser, each in six clicks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from analysed_runs import analysed_runs
from full_run import sample_run
from headless_browser import Browser, Page
from served import served

from divergraph.server.settings import Limits, ServerSettings
from graphstore.open_store import open_store

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.thorough]
MOST = 6
GONE_TO = "document.readyState === 'complete' && "


class Hand:
    """Clicks what it sees, as a user does, and counts."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, 0

    def click(self, selector: str, text: str = "") -> None:
        """On the first element that fits and holds *text*."""
        wanted = (
            f"[...document.querySelectorAll({selector!r})].find(each => "
            f"each.checkVisibility() && each.textContent.includes({text!r}))"
        )
        self.page.until(wanted)
        self.page.run(f"{wanted}.dataset.clicked = 'next'")
        self.page.click("[data-clicked=next]")
        self.page.run(
            "document.querySelector('[data-clicked=next]')?.removeAttribute('data-clicked')"
        )
        self.clicks += 1


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that starts jobs, whose store has a run with dumps and two runs of one model."""
    place = tmp_path_factory.mktemp("clicks")
    analysed_runs(place, str(place / "store"))
    with open_store(str(place / "store")) as store:
        store.save_run(sample_run("older"))
        store.save_run(sample_run("newer", "2026-01-02T00:00:00Z"))
    settings = ServerSettings(
        str(place / "store"), tokens=place / "tokens", state=place / "state", roots=(("d", place),)
    )
    with served(replace(settings, limits=Limits())) as client:
        yield str(client.base_url)


@pytest.fixture
def hand(browser: Browser, address: str) -> Iterator[Hand]:
    with browser.page(1500, 900) as page:
        page.visit(f"{address}/")
        hand = Hand(page)
        yield hand
        assert 0 < hand.clicks <= MOST
        assert page.said == []


def test_the_culprit_and_its_cause(hand: Hand) -> None:
    hand.click(".runs a.op", "newer")
    hand.page.until(GONE_TO + "document.querySelector('.origins')")
    assert "adds no bias" in " ".join(hand.page.texts(".origins"))
    hand.click(".origins a.op", "conv")
    hand.page.until(GONE_TO + "location.pathname.endsWith('/op')")
    assert hand.page.texts("h1") == ["conv"]
    assert hand.clicks == 2


def test_a_part_is_marked_exported_and_minimised(hand: Hand) -> None:
    hand.click(".runs a.op", "bad")
    hand.click(".actions a", "See the graph")
    hand.click(".graph-detail .actions a", "Start a part here")
    hand.page.until(GONE_TO + "location.search.includes('start=')")
    hand.click(".graph-detail .actions a", "End a part here")
    hand.page.until("document.querySelector('.graph-part .tools')?.hidden === false")
    hand.click(".graph-part button", "Download the part")
    hand.click(".graph-part button", "Search the smallest failing part")
    hand.page.until(GONE_TO + "location.pathname.startsWith('/jobs/')")
    hand.page.until("document.querySelector('h1 .job.ended')")


def test_two_runs_are_compared(hand: Hand) -> None:
    hand.click("[aria-label='Compare older']")
    hand.click("[aria-label='Compare newer']")
    hand.click("#pair button", "What changed")
    hand.page.until(GONE_TO + "document.querySelector('.graph-changes')")
    assert "still guilty" in " ".join(hand.page.texts(".graph-changes"))
    assert hand.page.run("location.pathname") == "/runs/newer/graph"
    assert hand.clicks == 3
