"""The chart of the cosine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App

from graphstore.model import OpState
from tui.widgets.curve import Curve, CurveOp, blocks_of, parts_of, scale_of, worst_of

cosines = st.none() | st.floats(-1.0, 1.0)


def op(number, cosine, state=OpState.CLEAN):
    return CurveOp(f"net/part{number // 4}/op{number}", number, cosine, state, f"part{number // 4}")


@given(st.lists(cosines, min_size=1, max_size=300), st.integers(1, 120))
def test_blocks_hold_every_op_once_and_fit_the_width(values, width):
    ops = [op(number, value) for number, value in enumerate(values)]
    blocks, cells = blocks_of(ops, width)
    assert [one.topo for block in blocks for one in block] == list(range(len(values)))
    assert len(blocks) * cells <= width


@given(st.lists(cosines, min_size=1, max_size=50))
def test_a_lower_cosine_never_has_a_higher_bar(values):
    ops = [op(number, value) for number, value in enumerate(values)]
    scale = scale_of(ops)
    known = sorted(value for value in values if value is not None)
    heights = [scale.height(value) for value in known]
    assert heights == sorted(heights)
    assert all(height <= 1.0 for height in heights)


@pytest.mark.parametrize("low", [0.3, 0.95, 0.9999])
def test_the_axis_reads_what_the_bars_show(low):
    scale = scale_of([op(0, 1.0), op(1, low)])
    for height in (0.2, 0.5, 0.9):
        assert scale.height(scale.cosine(height)) == pytest.approx(height)
        assert float(scale.label(height)) == pytest.approx(scale.cosine(height), abs=0.06)


def test_an_origin_stands_for_its_block_before_a_lower_cosine():
    block = [op(0, 0.2, OpState.INHERITED), op(1, 0.98, OpState.ORIGIN), op(2, None)]
    assert worst_of(block).topo == 1


def test_parts_are_named_where_names_begin_to_differ():
    names = ["net/conv1/Relu", "net/conv2/Relu", "net/fc/MatMul", "net/fc/Add", "Output"]
    assert parts_of(names) == ["conv1", "conv2", "fc", "fc", ""]


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


def made(count):
    ops = [op(number, 0.9999) for number in range(count)]
    ops[count // 2] = op(count // 2, 0.97, OpState.ORIGIN)
    ops[-1] = op(count - 1, None, OpState.BROKEN)
    return ops


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

    app = HighChart(made(30))
    app.ops[3] = op(3, -0.5)  # so the scale is by nines
    async with app.run_test(size=(80, 50)):
        lines = app.query_one(Curve).render().plain.splitlines()
        labels = [line.split()[0] for line in lines if line[:7].strip() and line[8] == "┤"]
        assert len(labels) > 10
        assert len(set(labels)) == len(labels)


async def test_a_run_without_compared_ops_says_so():
    app = CurveApp([])
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.query_one(Curve).render().plain == "no op has a cosine"
        await pilot.press("right", "enter")
        assert app.opened == []
