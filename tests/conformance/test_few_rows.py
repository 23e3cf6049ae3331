"""Rows of a few ops are those of all, though nothing else is read."""

from __future__ import annotations

import random

import pytest

from benchmarks.scale.model_graphs import made_run
from divergraph.ask.details import op_detail
from divergraph.ask.facts import known_facts, load_facts
from divergraph.ask.few_rows import few_rows
from divergraph.ask.questions.ops import OpsQuestion
from graphstore.contract import GraphStore
from graphstore.embedded import EmbeddedStore
from graphstore.model import OpState, Side

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("side", Side)
def test_rows_of_a_few_ops_are_those_of_all(store: GraphStore, side: Side) -> None:
    store.save_run(made_run(600, seed=5, name="large"))
    size = len(store.arrays("large", side).ids)
    chosen = random.Random(side).sample(range(size), 30)
    rows = few_rows(store, "large", chosen, side)
    every = load_facts(store, "large", side).rows
    assert rows == [every[number] for number in chosen]
    if side is Side.DEVICE:
        assert any(row.gain for row in rows)
        assert any(row.origins for row in rows if row.state is OpState.INHERITED)


def test_bodies_and_figures_that_are_no_numbers_make_no_difference(
    store: GraphStore, sample_run
) -> None:
    store.save_run(sample_run("x"))
    every = load_facts(store, "x").rows
    rows = few_rows(store, "x", range(len(every)), Side.DEVICE)
    assert repr(rows) == repr(list(every)), "NaN is not equal to NaN"


def test_a_large_graph_is_not_read_for_one_op_or_a_page(tmp_path) -> None:
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_run(made_run(10_000, name="large"))
        ids = store.arrays("large", Side.GOLDEN).ids
        detail = op_detail(store, "large", ids[5000], Side.GOLDEN)
        page = OpsQuestion("large", side=Side.GOLDEN, after=ids[4999], limit=20).ask(store)
        assert [row.id for row in page.ops] == list(ids[5000:5020])
        assert detail.row == page.ops[0]
        assert known_facts(store, "large", Side.GOLDEN) is None
        question = OpsQuestion("large", side=Side.GOLDEN)
        streamed = question.streamed(store, range(len(ids)))
        first = next(streamed)
        assert known_facts(store, "large", Side.GOLDEN) is None
        assert [first, *streamed] == list(question.ask(store).ops)


def test_a_kept_graph_gives_the_originals_of_a_few_ops(tmp_path) -> None:
    data = made_run(12_000, name="large")
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_run(data)
        golden = store.arrays("large", Side.GOLDEN).ids  # keeps them for the next
        rows = few_rows(store, "large", range(700, 720), Side.DEVICE)
    with EmbeddedStore(tmp_path / "store") as store:
        store.arrays("large")
        assert few_rows(store, "large", range(700, 720), Side.DEVICE) == rows
    assert any(len(row.originals) > 1 for row in rows)
    assert all(name in golden for row in rows for name in row.originals)
