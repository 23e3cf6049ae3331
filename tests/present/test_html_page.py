"""The HTML report, in a real browser: what it shows, and how it is used."""

from __future__ import annotations

import pytest

from divergraph.cli.main import run
from divergraph.present.pictures.metric_curve import metric_curve
from divergraph.present.pictures.scatter_plot import scatter_plot
from divergraph.text.printable import printable
from graphstore.open_store import open_store

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.thorough]

ORIGIN = "LeNet/conv2/Conv2DRelu"


@pytest.fixture(scope="module")
def page_of_fault(demo_store, tmp_path_factory):
    path = tmp_path_factory.mktemp("html") / "fault.html"
    assert run(["report", "fault", "--store", str(demo_store), "--html", str(path)]) == 0
    return path


@pytest.fixture
def page(browser, page_of_fault):
    """The report of the LeNet run, opened; it never asks for anything and never complains."""
    with browser.page() as tab:
        tab.open(page_of_fault)
        tab.frame()
        yield tab
        assert tab.asked == []
        assert tab.said == []


def rows(page) -> list[str]:
    return page.texts("#grid tr[data-row]")


def count(page) -> str:
    return page.texts("#count")[0]


def test_it_says_what_happened(page):
    assert page.texts("h1") == ["fault"]
    assert page.texts(".verdict") == ["diverged"]
    assert page.texts(".counts b") == ["164", "157", "126", "59", "31"]
    assert page.texts(".origins a.op") == [ORIGIN]
    assert "runs no task on the device" in page.texts("#not-compared")[0]


def test_the_plot_has_points_limits_and_origins(page):
    assert page.run("document.getElementById('plot').dataset.metric") == (
        "relative_euclidean_distance"
    )
    assert page.run("document.querySelector('#plot .rank-mark').textContent") == "1"
    assert page.run("document.querySelectorAll('#plot line.limit').length") == 2


def test_the_plot_is_the_picture_of_the_run(page, demo_store):
    """Its points lie where all faces have them, whatever the metric."""
    with open_store(str(demo_store)) as store:
        for metric in ("relative_euclidean_distance", "cosine_similarity", "max_absolute_error"):
            picture = scatter_plot(metric_curve(store, "fault", metric))
            page.run(f"location.hash = 'metric={metric}'")
            page.until(f"document.getElementById('plot').dataset.metric === '{metric}'")
            drawn = page.run(
                "[...document.querySelectorAll('#plot .point')].map(e => "
                "[e.cx.baseVal.value, e.cy.baseVal.value, e.dataset.state])"
            )
            described = [[point.x, point.y, point.state.value] for point in picture.points]
            assert len(drawn) == len(described) > 50
            for shown, expected in zip(sorted(drawn), sorted(described), strict=True):
                assert shown[2] == expected[2]
                assert shown[:2] == pytest.approx(expected[:2], abs=0.2)


def test_an_op_type_is_drawn_and_counted_alone(page):
    page.run("document.getElementById('type').value = 'Identity'")
    page.run("document.getElementById('type').dispatchEvent(new Event('change'))")
    assert all("Identity" in row for row in rows(page))
    beyond, _, measured, _ = page.texts("#beyond-count")[0].split()
    assert 0 < int(beyond) < int(measured) < 120
    assert page.run("document.querySelectorAll('#plot .point').length") == int(measured)


def test_numbers_that_are_not_defined_are_no_nan(page, page_of_fault):
    page.open(page_of_fault, "text=learning_rate_schedule/LessEqual:0")
    assert "undef" in rows(page)[0]
    assert "NaN" not in rows(page)[0]


def test_another_metric_has_its_own_limits(page, page_of_fault):
    page.open(page_of_fault, "metric=cosine_similarity")
    assert page.run("document.getElementById('limit').value") == "0.99"
    assert page.run("document.getElementById('metric').value") == "cosine_similarity"
    page.open(page_of_fault, "metric=max_absolute_error")
    assert page.run("document.querySelectorAll('line.limit').length") == 0


def test_a_limit_is_dragged_and_what_is_beyond_it_listed(page, page_of_fault):
    page.open(page_of_fault, "metric=relative_euclidean_distance")
    assert page.run("document.getElementById('limit').value") == "0.05"
    before = int(page.texts("#beyond-count")[0].split()[0])
    x, y = page.run(
        "(() => { document.getElementById('plot').scrollIntoView();"
        "const b = document.getElementById('plot').getBoundingClientRect();"
        "const l = document.querySelector('line.limit.fail');"
        "return [b.x + 200, b.y + +l.getAttribute('y1')]; })()"
    )
    page.mouse(x, y, "mousePressed")
    page.mouse(x, y - 30, "mouseMoved")
    page.mouse(x, y - 30, "mouseReleased")
    moved = float(page.run("document.getElementById('limit').value"))
    beyond = int(page.texts("#beyond-count")[0].split()[0])
    assert moved > 0.05
    assert 0 < beyond < before
    page.click("#beyond")
    assert count(page) == f"{beyond} of 157"
    assert f"limit={moved:g}&beyond=1" in page.run("location.hash")
    page.open(page_of_fault, "metric=cosine_similarity&limit=0.9&beyond=1")
    assert rows(page)
    assert all(float(text) < 0.9 for text in page.texts("td.cosine_similarity"))


@pytest.mark.slow
def test_typing_filters_the_table(page):
    everything = count(page)
    page.press("/")
    for letter in "conv2 relu":
        page.press(letter)
    assert count(page) != everything
    assert rows(page)
    assert all("conv2" in row.lower() for row in rows(page))
    assert "text=conv2" in page.run("location.hash")


def test_filters_of_the_address(page, page_of_fault):
    page.open(page_of_fault, "state=origin")
    assert len(rows(page)) == 1
    assert ORIGIN in rows(page)[0]
    page.open(page_of_fault, "level=3&io=1")
    assert count(page).startswith("59 of ")
    page.open(page_of_fault, "text=no+such+tensor")
    assert rows(page) == []
    assert "No tensor fits" in page.texts("#grid")[0]


def test_what_was_not_compared_is_shown_on_demand(page):
    assert count(page) == "126 of 157"
    page.click("#invalid")
    assert count(page) == "157 of 157"
    assert any("runs no task on the device" in row for row in rows(page))


def test_a_click_on_a_heading_sorts_the_worst_first(page):
    page.click("[data-sort=relative_euclidean_distance]")
    cells = "td.relative_euclidean_distance"
    values = [float(text) for text in page.texts(cells) if text != "NaN"]
    assert len(values) > 5
    assert values == sorted(values, reverse=True)
    page.click("[data-sort=relative_euclidean_distance]")
    values = [float(text) for text in page.texts(cells)]
    assert values == sorted(values)


def test_an_origin_leads_to_its_row_and_all_of_its_numbers(page):
    page.click(".origins a.op")
    assert ORIGIN in page.texts("tr[aria-selected]")[0]
    said = page.texts("#detail")[0]
    assert "0.131" in said
    assert "LeNet/conv2/Relu:0" in said


def test_a_point_and_a_name_lead_to_the_row_even_if_that_is_filtered_out(page, page_of_fault):
    x, y = page.run(
        "(() => { document.getElementById('plot').scrollIntoView();"
        "const c = document.querySelector('#plot [data-state=origin]').getBoundingClientRect();"
        "return [c.x + 6, c.y + 6]; })()"
    )
    page.mouse(x, y, "mouseMoved")
    assert any(ORIGIN in text for text in page.texts(".tip:not([hidden])"))
    page.mouse(x, y)
    assert ORIGIN in page.texts("tr[aria-selected]")[0]
    page.open(page_of_fault, "text=L2Loss")
    page.run("document.querySelector('.origins a.op').click()")
    assert ORIGIN in page.texts("tr[aria-selected]")[0]
    assert page.run("document.getElementById('text').value") == ""


def test_the_keyboard_is_enough(page):
    page.run("document.getElementById('grid').focus()")
    page.press("ArrowDown")
    page.press("ArrowDown")
    assert page.texts("tr[aria-selected]") == [rows(page)[1]]
    page.press("End")
    last = page.texts("tr[aria-selected]")
    assert last == [rows(page)[-1]]
    page.run("document.getElementById('plot').focus()")
    page.press("ArrowRight")
    assert page.texts(".tip:not([hidden]) b")
    page.press("Enter")
    assert page.texts("tr[aria-selected]") != last


def test_without_scripts_the_summary_is_there(browser, page_of_fault):
    with browser.page(script=False) as tab:
        tab.open(page_of_fault)
        text = tab.call("DOM.getDocument", depth=-1)
        assert "noscript" in str(text).lower()
        shown = tab.call("Accessibility.getFullAXTree")["nodes"]
        said = " ".join(str(node.get("name", {}).get("value", "")) for node in shown)
        assert ORIGIN in said
        assert "need JavaScript" in said
        assert "Accuracy along" not in said


def test_hostile_names_stay_text(browser, hostile_store, tmp_path):
    from hostile_run import HOSTILE

    path = tmp_path / "hostile.html"
    assert run(["report", "hostile", "--store", str(hostile_store), "--html", str(path)]) == 0
    with browser.page(dark=True, width=420) as tab:
        tab.open(path)
        tab.click("#invalid")
        assert tab.run("document.title").startswith("hostile: diverged")
        assert tab.run("document.querySelectorAll('main b').length") < 5
        names = tab.run("[...document.querySelectorAll('td.op')].map(e => e.title)")
        assert names == ["first:0", f"{printable(HOSTILE)}:0", "last:0"]
        tab.run("document.querySelector('.origins a.op').click()")
        assert "\\u202ebackwards:0" in tab.texts("tr[aria-selected]")[0]
        assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 27)"
        assert (tab.asked, tab.said) == ([], [])


@pytest.mark.slow
def test_a_large_run_stays_usable(browser, tmp_path):
    from benchmarks.scale.model_graphs import made_run

    data, store, path = made_run(30_000), tmp_path / "store", tmp_path / "large.html"
    with open_store(str(store)) as opened:
        opened.save_run(data)
    assert run(["report", "large", "--store", str(store), "--html", str(path)]) == 0
    with browser.page() as tab:
        tab.open(path)
        tab.frame()
        assert count(tab) == f"{data.run.counts.compared:,} of {data.run.counts.tensors:,}"
        assert len(rows(tab)) < 100
        tab.run("document.getElementById('grid').focus()")
        tab.press("End")
        # the last row is in sight although few rows are in the document
        assert len(tab.texts("tr[aria-selected]")) == 1
        assert tab.said == []
