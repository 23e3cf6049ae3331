"""The pages in a real browser: with the keyboard, on a small screen, and who can read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from headless_browser import Browser, Page
from served import served

from divergraph.server.settings import Limits, ServerSettings
from divergraph.server.tokens import TokenFile, UserRole

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.thorough]

WAYS = (
    "/",
    "/runs/first",
    "/runs/hostile",
    "/runs/first/op?op=conv",
    "/runs/values/op?op=relu&values=output:0",
    "/runs/values/part?start=tanh&end=tanh",
    "/runs/first/graph",
    "/runs/net/graph",
    "/compare",
    "/jobs",
    "/ask/query",
    "/ask/query?cypher=first_diverging&run=first",
    "/ask/runs",
    "/ask/regressions",
    "/runs/values/ask/model",
    "/runs/values/ask/trace",
    "/runs/values/ask/gate?baseline=values",
    "/runs/values/ask/minimize",
    "/nowhere",
)
FAINT = (Path(__file__).with_name("faint_texts.js")).read_text()
AXE = (Path(__file__).parent / "vendored" / "axe.min.js").read_text(encoding="utf-8")
VIOLATIONS = """
axe.run().then(result => window.violations = result.violations.map(
  rule => [rule.id, ...rule.nodes.slice(0, 3).map(node => node.html.slice(0, 120))]));
null
"""


def address(client: httpx.Client, way: str) -> str:
    return str(client.base_url) + way


def violations(page: Page) -> list[list[str]]:
    """The rules of axe-core that a page breaks, each with a few of the elements."""
    page.run(f"{AXE}; null")
    page.run(VIOLATIONS)
    page.until("window.violations")
    broken: list[list[str]] = page.run("window.violations")
    return broken


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.page() as page:
        yield page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everybody_can_read_and_name_all(browser: Browser, own: httpx.Client, dark: bool) -> None:
    """axe-core has nothing to say, texts in pictures stand out 4.5 times as others do (WCAG AA)."""
    with browser.page(dark=dark) as page:
        for way in WAYS:
            page.visit(address(own, way))
            assert page.run(FAINT) == [], way
            assert violations(page) == [], way
            assert page.run("document.querySelectorAll('h1').length") == 1, way
            assert page.run("document.documentElement.lang") == "en"
            page.run("document.querySelector('h1').style.color = '#8888'")
            assert len(page.run(FAINT)) == 1, "what is faint is seen"
            faults = [said for said in page.said if "404" not in said]
            assert faults == [], "the policy of the pages forbids something that they do"


def test_a_small_screen_is_wide_enough(browser: Browser, own: httpx.Client) -> None:
    with browser.page(400, 800) as page:
        for way in WAYS:
            page.visit(address(own, way))
            assert page.run("document.documentElement.scrollWidth") <= 400, way
        page.visit(address(own, "/runs/first"))
        origin = "document.querySelector('#along [data-state=origin]').getBoundingClientRect()"
        assert 0 <= page.run(f"{origin}.x") <= 400, "the origin is in view, however wide the plot"


def test_the_keyboard_is_enough(page: Page, own: httpx.Client) -> None:
    page.visit(address(own, "/runs/first"))
    page.press("Tab")
    assert page.run("document.activeElement.textContent") == "Skip to the content"
    assert page.run("document.activeElement.getBoundingClientRect().top >= 0")
    page.press("/")
    assert page.run("document.activeElement.name") == "where"
    page.write("fused>1")
    page.press("Enter")
    page.until("location.search.includes('fused') && document.readyState === 'complete'")
    assert page.texts(".ops th[scope=row]") == ["conv"]
    assert "sort" not in page.run("location.search"), "fields without a value are left out"
    page.run("document.querySelector('.ops th a').focus()")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    page.press("Tab")
    assert page.run(outline) == "solid"


def test_a_choice_is_sent_at_once(page: Page, own: httpx.Client) -> None:
    page.visit(address(own, "/runs/first"))
    page.run(
        "{ const e = document.querySelector('select[name=state]'); e.value = 'origin';"
        "e.dispatchEvent(new Event('change')) }"
    )
    page.until("location.search === '?state=origin' && document.readyState === 'complete'")
    assert page.texts(".ops th[scope=row]") == ["conv"]


def test_hostile_names_do_nothing(page: Page, own: httpx.Client) -> None:
    page.visit(address(own, "/runs/hostile"))
    assert page.run("document.title") == "hostile - Divergraph"
    page.click(".origins a.op")
    page.until("location.pathname === '/runs/hostile/op' && document.readyState === 'complete'")
    assert "<script>" in page.run("document.title")
    assert page.run("document.querySelectorAll('main b, main img').length") == 0


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_a_login_is_a_form(
    browser: Browser, settings: ServerSettings, script: bool, tmp_path: Path
) -> None:
    token = TokenFile(tmp_path / "tokens").add("ada", UserRole.READER)
    guarded = replace(settings, behind_proxy=True, tokens=tmp_path / "tokens")
    with served(guarded) as client, browser.page(script=script) as page:
        page.visit(address(client, "/runs/first/op?op=conv"))
        page.until("document.activeElement.id === 'token'")
        page.write(token)
        page.until("document.activeElement.value")
        page.press("Enter")
        page.until("location.pathname === '/runs/first/op' && document.querySelector('h1')")
        assert page.texts("h1") == ["conv"]
        cookies = page.call("Network.getCookies")["cookies"]
        assert [(each["httpOnly"], each["sameSite"]) for each in cookies] == [(True, "Strict")]
        page.click("form[action='/logout'] button")
        page.until("location.pathname === '/login'")


@pytest.mark.slow
@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_a_comparison_is_followed_to_its_run(
    browser: Browser, settings: ServerSettings, script: bool, tmp_path: Path
) -> None:
    """By events; without scripts, by looking again."""
    busy = replace(settings, state=tmp_path / "state", limits=Limits())
    name = f"seen-{script}".lower()
    paths = {"golden": "net.onnx", "golden-dump": "golden", "device": "net.onnx"}
    fields = {**paths, "device-dump": "device"}
    with served(busy) as client, browser.page(script=script) as page:
        page.visit(address(client, "/compare"))
        for field, path in fields.items():
            page.click(f"#{field}")
            page.until(f"document.activeElement.id === '{field}'")
            page.write(f"data:{path}")
            page.until("document.activeElement.value")
        page.click("#name")
        page.write(name)
        page.until("document.activeElement.value && document.activeElement.id === 'name'")
        page.press("Enter")
        page.until("location.pathname.startsWith('/jobs/')")
        page.until("document.querySelector('h1 .job.ended')")
        page.click("#live p a.op")
        page.until(f"location.pathname === '/runs/{name}' && document.querySelector('.origins')")


def test_a_limit_is_dragged_with_its_count_and_the_link_to_its_ops(
    page: Page, own: httpx.Client
) -> None:
    page.visit(address(own, "/runs/first?limit=0.05"))
    x, y = page.run(
        "(() => { const l = document.querySelector('line.limit.fail'); "
        "l.scrollIntoView({block: 'center'}); const b = l.getBoundingClientRect();"
        "return [b.x + 100, b.y]; })()"
    )
    before = page.texts("[data-beyond]")[0]
    page.mouse(x, y, "mousePressed")
    page.mouse(x, y + 60, "mouseMoved")
    page.mouse(x, y + 60, "mouseReleased")
    assert page.texts("[data-beyond]")[0] != before
    limit = float(page.run("document.querySelector('[name=limit]').value"))
    assert 0 < limit < 0.05
    where = "new URL(document.querySelector('[data-beyond] a').href).searchParams.get('where')"
    assert page.run(where) == f"relative_euclidean_distance>{limit:g}"
    assert page.said == []
