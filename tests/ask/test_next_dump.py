"""The one more dump that is advised splits best: tried against dumping each op in turn."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergraph.rootcause.groups.groups import GroupCutter
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.next_dump import best_dump
from graphstore.model import (
    Framework,
    GraphKind,
    InputRef,
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    Tensor,
    TensorRef,
)
from graphstore.traverse.topological_order import graph_arrays


@dataclass(frozen=True)
class Model:
    """A golden graph, and one whose ops are chains of golden ops fused: last op by device op."""

    golden: ModelGraph
    device: ModelGraph
    fused: dict[str, list[str]]

    def sizes(self, dumped: str, end: str) -> tuple[int, int]:
        """How many ops are left to choose from once *dumped* is measured beside *end*."""
        measured = {
            TensorRef(op, 0): TensorRef(self.fused[op][-1], 0)
            for op in dict.fromkeys((dumped, end))
        }
        cut = GroupCutter(OpGraph(self.golden), OpGraph(self.device), measured, frozenset())
        groups = [cut.group(output) for output in measured]
        assert not any(group.failure for group in groups)
        return len(groups[0].ops), len(groups[-1].ops)


def graph(inputs: dict[str, list[str]]) -> ModelGraph:
    ops = tuple(
        Op(
            name,
            name,
            "Add",
            tuple(InputRef(each, TensorRef(each, 0)) for each in read) or (InputRef("x"),),
            outputs=(Tensor(name),),
        )
        for name, read in inputs.items()
    )
    entry = (Tensor("x"),)
    return ModelGraph("g", GraphKind.ORIGINAL, Framework.ONNX, "onnx", ops, inputs=entry)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """DAGs whose ops all lead to the last one; some chains are one op on the device."""
    count = draw(st.integers(2, 12))
    read: dict[str, list[str]] = {}
    unread: set[int] = set()
    for number in range(count):
        before = (
            draw(st.lists(st.integers(0, number - 1), unique=True, max_size=3)) if number else []
        )
        if number == count - 1:
            before = sorted({*before, *unread})
        unread -= set(before)
        unread.add(number)
        read[f"o{number:02}"] = [f"o{each:02}" for each in before]
    users = {name: [n for n, given in read.items() if name in given] for name in read}
    fused = {name: [name] for name in read}
    for name, given_to in read.items():
        if len(given_to) == 1 and users[given_to[0]] == [name] and draw(st.booleans()):
            fused[name] = [*fused.pop(given_to[0]), name]
    owner = {original: name for name, originals in fused.items() for original in originals}
    inputs = {
        name: list(
            dict.fromkeys(
                owner[each]
                for original in originals
                for each in read[original]
                if owner[each] != name
            )
        )
        for name, originals in fused.items()
    }
    return Model(graph(read), graph(dict(sorted(inputs.items()))), fused)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(models())
def test_no_other_dump_leaves_fewer_ops_to_choose_from(model: Model) -> None:
    end = max(model.fused)
    whole = model.sizes(end, end)[0]
    worst = {op: max(model.sizes(op, end)) for op in model.fused if op != end}
    links = [
        LineageLink(device, original, LineageRule.ORIGINAL_NAMES)
        for device, originals in model.fused.items()
        for original in originals
    ]
    names = [op.id for op in model.golden.ops]
    found = best_dump(names, end, graph_arrays(model.golden), links)
    if found is None:
        assert all(left >= whole for left in worst.values())
        return
    assert (found.before, found.after) == model.sizes(found.op, end)
    assert max(found.before, found.after) == min(worst.values())
