"""Order, filter and cells of the list of ops."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divergraph.ask import op_order
from divergraph.ask.op_order import Order
from divergraph.text.words import NOT_KNOWN
from graphstore.filter import parse_filter
from graphstore.model import ErrorSplit, Guilt, Metric, MetricSet, OpState, Reason, Role, Side
from graphstore.op_row import OpRow
from tests.made.op_columns import columns_of
from tui.render.op_table import OpList, OpTable
from tui.style.glyphs import ASCII, UNICODE


def metrics_of(error):
    rest = dict.fromkeys((metric.value for metric in Metric), error)
    rest |= {"cosine_similarity": 1 - error / 2, "standard_deviation": (0.0, 1.0, 0.0, 1.0)}
    return MetricSet(**rest, device_nonfinite=int(math.isnan(error)))


def row(topo, error=None, **changes):
    base = OpRow(
        topo=topo,
        id=f"layer/op_{topo}",
        name=f"layer/op_{topo}",
        type="MatMul",
        side=Side.DEVICE,
        subgraph="",
        dtype="float16",
        shape=(1, 128),
        layout="ND",
        fused=1,
        originals=(),
        state=OpState.CLEAN if error is not None else OpState.NOT_COMPARED,
        metrics=None if error is None else metrics_of(error),
        reason=None if error is not None else Reason.NO_DEVICE_DUMP,
    )
    return replace(base, **changes)


def ops(rows):
    return columns_of(rows)


def arranged(rows, order):
    return op_order.arrange(ops(rows), order).tolist()


def table_of(rows, numbers, glyphs, *, in_run):
    return OpTable(ops(rows), np.array(numbers), glyphs, in_run)


errors = st.none() | st.just(math.nan) | st.floats(0, 1.5)


@given(st.lists(errors, max_size=30), st.sampled_from(["cos", "max", "rel"]), st.booleans())
def test_sorting_keeps_every_row_and_puts_nan_as_worst(values, column, descending):
    rows = [row(topo, error) for topo, error in enumerate(values)]
    order = arranged(rows, Order(column, descending))
    assert sorted(order) == list(range(len(rows)))
    kinds = [_kind(values[number]) for number in order]
    assert kinds == sorted(kinds, key=lambda kind: _rank(kind, descending))
    known = [values[n] for n in order if values[n] is not None and not math.isnan(values[n])]
    if column != "cos":
        assert known == sorted(known, reverse=not descending)


def _kind(value):
    return "unknown" if value is None else "nan" if math.isnan(value) else "number"


def _rank(kind, descending):
    order = ["number", "nan", "unknown"] if descending else ["nan", "number", "unknown"]
    return order.index(kind)


@pytest.mark.parametrize("column", op_order.SORT_KEYS)
def test_every_column_sorts_and_equal_rows_keep_execution_order(column):
    rows = [row(topo, 0.5) for topo in range(5)]
    assert arranged(rows, Order(column)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("column", ["topo", "max", "rel", "gain", "shape", "susp", "intro"])
def test_the_heading_says_whether_the_largest_number_is_first(column):
    small, large = (
        row(
            topo,
            number / 10,
            gain=number,
            shape=(int(number),),
            split=ErrorSplit(Role.CARRIES, Guilt.NONE, number, None, None, number),
        )
        for topo, number in ((1, 2.0), (2, 9.0))
    )
    order = arranged([replace(small, topo=0), replace(large, topo=1)], Order(column))
    assert (order == [1, 0]) is (column in op_order.LARGEST_FIRST)


def test_a_broken_op_is_the_worst_whatever_its_cosine():
    rows = [row(0, 0.9), row(1, 0.1, state=OpState.BROKEN)]
    assert arranged(rows, Order("cos")) == [1, 0]


def test_a_cosine_statistics_do_not_tell_is_neither_shown_nor_the_worst():
    told = replace(metrics_of(math.nan), notes={Metric.COSINE_SIMILARITY: NOT_KNOWN})
    rows = [row(0, 0.1, metrics=told), row(1, 0.2), row(2, math.nan)]
    assert arranged(rows, Order("cos")) == [2, 1, 0]
    assert cells(table_of(rows, [0, 1, 2], UNICODE, in_run=True))["cos"] == UNICODE.dash


def test_a_figure_of_zeros_has_no_value_and_comes_last():
    zeros = replace(metrics_of(math.nan), device_nonfinite=0)
    rows = [row(0, 0.1, metrics=zeros), row(1, 0.2), row(2, math.nan)]
    for column in ("cos", "rel"):
        assert arranged(rows, Order(column)) == [2, 1, 0]
        assert cells(table_of(rows, [0, 1, 2], UNICODE, in_run=True))[column] == "undef"


def test_what_the_filter_lets_through_stays_in_order_unless_stopped():
    listed = OpList(ops([row(topo) for topo in range(10)]), UNICODE, in_run=True, marked=set())
    backwards = Order("topo", descending=True)
    table = listed.table(parse_filter("op_3|op_5"), backwards, lambda: False)
    assert [each.topo for each in table.shown] == [5, 3]
    assert (table.index_of("layer/op_3"), table.index_of("layer/op_4")) == (1, None)
    assert listed.table(parse_filter("op_3"), backwards, lambda: True) is None
    assert len(listed.table(None, backwards, lambda: False)) == 10


def cells(table, index=0):
    columns = [column.id for column in table.columns]
    return {
        name: cell.text + cell.tail for name, cell in zip(columns, table.row(index), strict=True)
    }


def test_an_inherited_op_names_the_topo_of_its_origins():
    rows = [
        row(0, 0.3, state=OpState.ORIGIN, fused=4),
        row(1, 0.2, state=OpState.INHERITED, origins=("layer/op_0",), gain=0.7),
    ]
    table = table_of(rows, [0, 1], UNICODE, in_run=True)
    assert cells(table)["from"] == "origin"
    assert cells(table)["op"] == "layer/op_0 ⊕4"
    assert cells(table, 1)["from"] == "0"
    assert cells(table, 1)["gain"] == f"{UNICODE.times}0.7"


def test_an_op_without_a_dump_says_so_in_place_of_numbers():
    shown = cells(table_of([row(0)], [0], UNICODE, in_run=True))
    assert (shown["cos"], shown["max"], shown["from"]) == (UNICODE.dash, UNICODE.dash, "no dump")


def test_there_is_no_gain_column_where_no_gain_is_known():
    table = table_of([row(0, 0.3)], [0], UNICODE, in_run=True)
    assert "gain" not in cells(table)


def test_an_imported_graph_has_no_result_columns():
    table = table_of([row(0, state=None, reason=None)], [0], ASCII, in_run=False)
    assert "cos" not in cells(table)
    assert cells(table)["dtype"] == "fp16"


def test_the_small_bars_show_the_neighbours_in_execution_order():
    rows = [row(0, 0.0), row(1, 1e-3), row(2), row(3, 1.0), row(4, math.nan)]
    table = table_of(rows, [3], UNICODE, in_run=True)
    assert table.err(3) == "▁▄ ██  "


def test_the_failed_metric_is_marked_with_the_state():
    failed = row(0, 0.3, state=OpState.ORIGIN, failed=(Metric.RELATIVE_EUCLIDEAN_DISTANCE,))
    table = table_of([failed], [0], UNICODE, in_run=True)
    styles = dict(zip([c.id for c in table.columns], (c.style for c in table.row(0)), strict=True))
    assert (styles["rel"], styles["cos"]) == ("origin", "")
