"""The chart of the cosine."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App

from graphstore.columns.coded import Coded
from graphstore.model import OpState
from tui.widgets.curve import FOOT_LINES, Curve
from tui.widgets.curve_ops import CurveOps, blocks_of, parts_of, scale_of, worst_of

cosines = st.none() | st.floats(-1.0, 1.0)


def curve(cosines, states=None):
    size = len(cosines)
    return CurveOps(
        [f"net/part{number // 4}/op{number}" for number in range(size)],
        np.arange(size),
        np.array([math.nan if each is None else each for each in cosines]),
        Coded.of(states or [OpState.CLEAN] * size),
        Coded.of(f"part{number // 4}" for number in range(size)),
    )


@given(st.lists(cosines, min_size=1, max_size=300), st.integers(1, 120))
def test_blocks_hold_every_op_once_and_fit_the_width(values, width):
    blocks, cells = blocks_of(len(values), width)
    assert [one for block in blocks for one in block] == list(range(len(values)))
    assert len(blocks) * cells <= width


@given(st.lists(cosines, min_size=1, max_size=50))
def test_a_lower_cosine_never_has_a_higher_bar(values):
    scale = scale_of(curve(values))
    known = sorted(value for value in values if value is not None)
    heights = [scale.height(value) for value in known]
    assert heights == sorted(heights)
    assert all(height <= 1.0 for height in heights)


@pytest.mark.parametrize("low", [0.3, 0.95, 0.9999])
def test_the_axis_reads_what_the_bars_show(low):
    scale = scale_of(curve([1.0, low]))
    for height in (0.2, 0.5, 0.9):
        assert scale.height(scale.cosine(height)) == pytest.approx(height)
        assert float(scale.label(height)) == pytest.approx(scale.cosine(height), abs=0.06)


def test_an_origin_stands_for_its_block_before_a_lower_cosine():
    states = [OpState.INHERITED, OpState.ORIGIN, OpState.CLEAN]
    assert worst_of(curve([0.2, 0.98, None], states), np.arange(3)) == 1


def test_what_has_no_finite_number_is_beyond_every_limit():
    ops = replace(curve([0.999, None, 0.5]), limit=0.9)
    assert ops.beyond().tolist() == [False, True, True]
    assert not replace(ops, limit=None).beyond().any()


def test_parts_are_named_where_names_begin_to_differ():
    names = ["net/conv1/Relu", "net/conv2/Relu", "net/fc/MatMul", "net/fc/Add", "Output"]
    assert list(parts_of(names)) == ["conv1", "conv2", "fc", "fc", ""]


class CurveApp(App):
    CSS = "Curve { height: 12; }"

    def __init__(self, ops):
        super().__init__()
        self.ops = ops
        self.opened = []

    def compose(self):
        yield Curve()

    def on_mount(self):
        self.query_one(Curve).show(self.ops)
        self.query_one(Curve).focus()

    def on_curve_opened(self, event):
        self.opened.append(event.op)


def made(count, low=()):
    cosines, states = [0.9999] * count, [OpState.CLEAN] * count
    cosines[count // 2], states[count // 2] = 0.97, OpState.ORIGIN
    cosines[-1], states[-1] = None, OpState.BROKEN
    for number in low:
        cosines[number] = -0.5
    return curve(cosines, states)


@pytest.mark.parametrize("count", [2, 30, 1000])
async def test_the_marker_starts_on_the_origin_and_walks(count):
    app = CurveApp(made(count))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await pilot.press("end", "right", "enter", "home", "left", "enter")
        assert app.opened[0] == f"net/part{count // 2 // 4}/op{count // 2}"
        assert app.opened[1] == f"net/part{(count - 1) // 4}/op{count - 1}"


async def test_the_chart_shows_origin_and_broken_by_their_marks():
    app = CurveApp(made(30))
    async with app.run_test(size=(80, 24)):
        text = app.query_one(Curve).render().plain
        assert "◆◆" in text
        assert "!!" in text
        assert "topo 15" in text


async def test_the_axis_of_a_high_chart_says_no_number_twice():
    class HighChart(CurveApp):
        CSS = "Curve { height: 40; }"

    app = HighChart(made(30, low=[3]))  # so the scale is by nines
    async with app.run_test(size=(80, 50)):
        lines = app.query_one(Curve).render().plain.splitlines()
        labels = [line.split()[0] for line in lines if line[:7].strip() and line[8] == "┤"]
        assert len(labels) > 10
        assert len(set(labels)) == len(labels)


async def test_a_run_without_compared_ops_says_so():
    app = CurveApp(curve([]))
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.query_one(Curve).render().plain == "no op has a cosine"
        await pilot.press("right", "enter")
        assert app.opened == []


def errors(values, limit=0.05):
    return replace(
        curve(values),
        metric="relative_euclidean_distance",
        label="relative error",
        limit=limit,
    )


@given(st.lists(st.floats(0, 1e9) | st.just(math.inf), min_size=1, max_size=50))
def test_a_larger_error_never_has_a_lower_bar(values):
    scale = scale_of(errors(values))
    heights = [scale.height(value) for value in sorted(values)]
    assert heights == sorted(heights)
    assert all(0 <= height <= 1 for height in heights)


@pytest.mark.parametrize("ops", [errors([0.001, 0.2, 3.0]), curve([0.9, 0.98, 0.9999])])
def test_a_limit_moves_both_ways_and_is_counted(ops):
    up, down = ops.with_limit_moved(1), ops
    assert down.with_limit_moved(0).limit in (0.05, 0.99)
    for _ in range(40):
        down, up = down.with_limit_moved(-1), up.with_limit_moved(1)
    assert down.limit < (ops.limit or 0.99) < up.limit
    assert sorted([down.beyond().sum(), up.beyond().sum()]) == [0, 3]


async def test_the_limit_is_a_line_whose_ops_can_be_listed():
    class LimitApp(CurveApp):
        def on_curve_beyond(self, event):
            self.opened.append(event.where)

    app = LimitApp(errors([0.001, 0.002, 0.2, 0.3] * 5))
    async with app.run_test(size=(80, 24)) as pilot:
        chart = app.query_one(Curve)
        assert chart.border_subtitle == "10 of 20 ops beyond 0.05"
        await pilot.press(*["plus"] * 5)
        assert chart.border_subtitle == "5 of 20 ops beyond 0.212"
        lines = chart.render().plain.splitlines()[:-FOOT_LINES]
        assert sum("─" in line for line in lines) == 1
        await pilot.press("F")
        assert app.opened == ["relative_euclidean_distance>0.212"]
