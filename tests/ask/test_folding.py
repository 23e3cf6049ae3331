"""Graphs folded by name spaces, which pictures open group by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from full_run import feed, original_graph, sample_run

from divergraph.ask.folding import MOST, FoldedOps, folded
from divergraph.ask.questions.graph import GraphQuestion
from graphstore.errors import InputError
from graphstore.model import Op, OpState, Side, Tensor
from graphstore.open_store import open_store


def names_in(folds: FoldedOps, ids: Sequence[str], group: int = 0) -> list[str]:
    children = folds.groups[group].children
    return [ids[~each] if each < 0 else folds.groups[each].name for each in children]


def test_name_spaces_are_folded_where_they_hold_more_than_one_thing() -> None:
    ids = ["net/a/x", "net/b/only/one", "net/a/y", "net/head"]
    folds = folded(ids)
    assert names_in(folds, ids) == ["net/a", "net/b/only/one", "net/head"]
    group = int(folds.holder[2])
    assert names_in(folds, ids, group) == ["net/a/x", "net/a/y"]
    assert folds.trail(group) == [0, group]


@pytest.mark.parametrize("ops", [MOST, MOST + 1, 70_000])
def test_long_lists_are_folded_in_blocks_and_each_op_is_in_one(ops: int) -> None:
    folds = folded([f"op{number}" for number in range(ops)])
    assert max(len(group.children) for group in folds.groups) <= MOST
    listed = [~child for group in folds.groups for child in group.children if child < 0]
    assert sorted(listed) == list(range(ops))
    assert folds.order.tolist() == listed == list(range(ops)), "blocks keep the order"


def test_names_of_a_thousand_parts_are_folded() -> None:
    ids = ["/".join(["a"] * 1000 + [str(n)]) for n in range(3)] + ["//", "", "/"]
    folds = folded(ids)
    assert sorted(folds.order.tolist()) == list(range(6))


def test_a_level_says_what_goes_between_and_what_is_worst_inside(tmp_path: Path) -> None:
    ops = ["in", "net/a/x", "net/a/y", "net/b/x", "net/b/y", "out"]
    chain = (
        Op(op, op, "Add", (feed(before),) if before else (), outputs=(Tensor(f"{op}:0"),))
        for before, op in pairwise(["", *ops])
    )
    graph = replace(original_graph(), name="chain", ops=tuple(chain), outputs=())
    with open_store(str(tmp_path / "store")) as store:
        store.save_graph(graph, "chain")
        level = GraphQuestion("chain").ask(store)
        assert [(node.name, node.ops) for node in level.nodes] == [
            ("in", 1),
            ("net", 4),
            ("out", 1),
        ]
        assert [(edge.source, edge.target, edge.edges) for edge in level.edges] == [
            (0, 1, 1),
            (1, 2, 1),
        ]
        inner = GraphQuestion("chain", op="net/b/y").ask(store)
        assert [group.name for group in inner.trail] == ["", "net", "net/b"]
        assert [(node.name, node.before, node.after) for node in inner.nodes] == [
            ("net/b/x", 1, 0),
            ("net/b/y", 0, 1),
        ]
        with pytest.raises(InputError):
            GraphQuestion("chain", 99).ask(store)


def test_originals_have_the_state_of_their_device_op(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(sample_run("first"))
        level = GraphQuestion("first", op="conv").ask(store)
        conv = next(node for node in level.nodes if node.name == "conv")
        assert (conv.state, conv.fused) == (OpState.ORIGIN, len(conv.partners))
        original = GraphQuestion("first", op=conv.partners[0], side=Side.GOLDEN).ask(store)
        states = Counter(node.state for node in original.nodes if node.name in conv.partners)
        assert set(states) == {OpState.ORIGIN}
