"""The columns of all ops say what the whole values of a run say, on every store; filters say of
columns what they say of each row."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import count

import numpy as np
import pytest
from any_run import whole_runs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows_by_hand import rows_by_hand

from divergraph.ask.facts import op_rows
from graphstore.contract import GraphStore, RunData
from graphstore.filter import FIELDS, FieldKind, parse_filter
from graphstore.model import SPLIT_NUMBERS, LineageLink, LineageRule, Side, TensorIO
from graphstore.neo4j import Neo4jStore
from graphstore.op_row import OpRow
from tests.made.op_columns import columns_of

pytestmark = pytest.mark.thorough

WORDS = st.sampled_from(["a", "0", "none", "nan", "*", "1", "any", "clean", "Conv*", "float"])


def told(row: OpRow) -> dict[str, str]:
    """The fields of a row as text, but for what depends on other rows and what columns leave out:
    NaN equals NaN there, and -0.0 is 0.0."""
    split = row.split and replace(row.split, group=(), reference="")
    own = replace(row, gain=None, origins=(), split=split)
    texts = {field.name: repr(getattr(own, field.name)) for field in fields(own)}
    return {
        name: text.replace("-0.0,", "0.0,").replace("-0.0)", "0.0)") for name, text in texts.items()
    }


def check(store: GraphStore, data: RunData) -> None:
    for side in Side:
        listed = op_rows(store, data.run.name, side)
        by_hand = rows_by_hand(data, side)
        assert len(listed) == len(by_hand)
        for row, expected in zip(listed, by_hand, strict=True):
            assert told(row) == told(expected)


def test_figures_of_an_op_are_the_worst_of_its_outputs(store: GraphStore, sample_run) -> None:
    data = sample_run("first")
    item = next(one for one in data.comparisons if one.metrics and one.io is TensorIO.OUTPUT)
    assert item.metrics is not None
    beside = replace(item, port=1, metrics=replace(item.metrics, max_absolute_error=1e9))
    store.save_run(replace(data, comparisons=(*data.comparisons, beside)))
    figures, ids = store.op_figures("first"), store.arrays("first").ids
    states = store.states("first")
    assert [*figures.states] == [states.get(op) for op in ids]
    number = store.arrays("first").number[item.op]
    assert figures.numbers["max_absolute_error"][number] == 1e9
    distances = figures.numbers["relative_euclidean_distance"]
    for row, distance in zip(op_rows(store, "first"), distances.tolist(), strict=True):
        own = np.nan if row.metrics is None else row.metrics.relative_euclidean_distance
        assert distance == own or (np.isnan(distance) and np.isnan(own))


@pytest.mark.parametrize("odd_link", [False, True])
def test_columns_say_what_the_whole_values_say(store: GraphStore, sample_run, odd_link) -> None:
    data = sample_run("first")
    if odd_link:  # to an op in no graph, between others, and twice
        link = LineageLink(data.links[0].device, "nowhere", LineageRule.SAME_NAME)
        data = replace(data, links=(*data.links[:1], link, *data.links, link))
    store.save_run(data)
    check(store, data)


def test_the_worst_of_several_outputs_is_listed(store: GraphStore, sample_run) -> None:
    data = sample_run("first")
    items = list(data.comparisons)
    at = next(n for n, item in enumerate(items) if item.metrics is not None)
    metrics = items[at].metrics
    assert metrics is not None
    worse = replace(metrics, device_nonfinite=9, golden_nonfinite=0)
    beside = replace(items[at], port=1, metrics=worse, io=TensorIO.OUTPUT, detail="the worse one")
    both = [beside, replace(beside, port=2)]
    for day, more in enumerate(([beside], [replace(beside, level=None)], both)):
        run = replace(data.run, created=f"2026-01-0{day + 1}T00:00:00Z")
        changed = replace(data, run=run, comparisons=(*items, *more))
        store.save_run(changed, replace=True)
        check(store, changed)
        has_it = any(row.output == 1 for row in op_rows(store, "first"))
        assert has_it is (more[0].level is not None)


@pytest.mark.parametrize("odd_link", [False, True])
def test_links_as_columns_are_the_links(store: GraphStore, sample_run, odd_link) -> None:
    data = sample_run("first")
    if odd_link:
        link = LineageLink(data.links[0].device, "nowhere", LineageRule.SAME_NAME, confidence=0.5)
        data = replace(data, links=(*data.links[:1], link, *data.links))
    store.save_run(data)
    columns = store.link_columns("first")
    known = {op for side in Side for op in store.arrays("first", side).ids}
    for side in Side:
        for op, number in store.arrays("first", side).number.items():
            links = store.links("first", op, side)
            assert columns.of(side, number, op) == links
            assert bool(columns.linked(side)[number]) is bool(links)
            others = {_other_end(one, side) for one in links} & known
            assert len(columns.partners(side, number)) == len(others)
            assert (number in columns.several(side)) is (len(others) > 1)


def test_ops_are_found_by_their_attributes(store: GraphStore, sample_run) -> None:
    data = sample_run("first")
    given = {"pads": (0, 0, 1, 1), "mode": "same upper", "keep": True, "taps": (0,) * 4000 + (7,)}
    first, *rest = data.device.ops
    device = replace(data.device, ops=(replace(first, attrs=given), *rest))
    store.save_run(replace(data, device=device))
    assert not op_rows(store, "first")[0].attributes  # nothing is read that nobody asks for
    texts = ["attr:pads", "attr:pads=[0,0,1,1]", 'attr:"same upper"', "attr=keep=true", "attr~^mo"]
    for text in (*texts, "!attr:none attr:pads*", "attr:0,7] attr~,7]$"):  # however long
        (row,) = op_rows(store, "first", where=parse_filter(f"id:{first.id} {text}"))
        assert row.attributes[:3] == ("keep=true", "mode=same upper", "pads=[0,0,1,1]")
    for text in ("attr:pads=[1", "attr=pads", "attr:none"):
        assert not op_rows(store, "first", where=parse_filter(f"id:{first.id} {text}")), text


def _other_end(link: LineageLink, side: Side) -> str:
    return link.original if side is Side.DEVICE else link.device


_NUMBERS = count()


@st.composite
def runs_of_several_outputs(draw: st.DrawFn) -> RunData:
    """Any run, with the results of one op given to others, too, as those of more outputs."""
    data = draw(whole_runs())
    run = replace(data.run, inputs={"number": str(next(_NUMBERS))})  # facts are kept by run
    names = [op.id for op in data.device.ops]
    more = [
        replace(item, op=draw(st.sampled_from(names)), port=draw(st.integers(0, 3)))
        for item in data.comparisons
    ]
    order = {name: at for at, name in enumerate(names)}
    items = sorted((*data.comparisons, *more), key=lambda item: order[item.op])
    links = [
        LineageLink(name, draw(st.sampled_from(names)), LineageRule.SAME_NAME)
        for name in draw(st.lists(st.sampled_from(names), max_size=3))
    ]
    return replace(data, run=run, comparisons=tuple(items), links=tuple(links))


@pytest.mark.slow
def test_any_run_and_any_filter(store: GraphStore) -> None:
    """Fewer on a server, which takes three seconds for each."""

    @settings(
        max_examples=3 if isinstance(store, Neo4jStore) else 8,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.nested_given],
    )
    @given(runs_of_several_outputs(), st.data())
    def any_run(data: RunData, drawn: st.DataObject) -> None:
        any_filter(store, data, drawn)

    any_run()


def any_filter(store: GraphStore, data: RunData, drawn: st.DataObject) -> None:
    suspicions = [item.split.suspicion for item in data.comparisons if item.split is not None]
    store.save_run(data, replace=True)
    if not any(value is not None and value != value for value in suspicions):  # NaN has no order
        check(store, data)
    rows = op_rows(store, "any", where=parse_filter("attr:none|*"))  # all, with attributes
    for text in [_condition(drawn) for _ in range(30)]:
        wanted = parse_filter(text)
        fitting = np.flatnonzero(wanted.mask(columns_of(rows))).tolist()
        assert [row.topo for row in op_rows(store, "any", where=wanted)] == fitting, text


def _condition(drawn: st.DataObject) -> str:
    """A filter about any field that can be understood."""
    field = drawn.draw(st.sampled_from(FIELDS))
    negated, value = drawn.draw(st.sampled_from(["", "!"])), drawn.draw(WORDS)
    operators = [":", "=", "!=", "~"]
    if field.kind is FieldKind.NUMBER or field.name in SPLIT_NUMBERS:
        operators, value = (
            [":", "!=", "<", ">=", ">"],
            drawn.draw(st.sampled_from("0 1 2.5".split())),
        )
        if drawn.draw(st.booleans()):
            operators, value = [":", "!="], drawn.draw(st.sampled_from(["nan", "none"]))
    operator = drawn.draw(st.sampled_from(operators))
    if field.kind in (FieldKind.CHOICE, FieldKind.METRIC) and operator != "~":
        value = "none"
    if field.kind is FieldKind.SHAPE and operator != "~":
        value = drawn.draw(st.sampled_from(["none", "*", "1,*", "scalar", "?"]))
    if operator == "~":
        value = drawn.draw(st.sampled_from(["o", "^a", "1$", "."]))
    return f"{negated}{field.name}{operator}{value}"
