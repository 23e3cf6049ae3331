"""What columns say of the steps of an error's path is what looking at each op says."""

from __future__ import annotations

import math
from dataclasses import replace

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from divergraph.ask.error_paths.path_compression import FEWEST, folded
from divergraph.ask.error_paths.path_steps import ATTENUATES, ErrorRegion, PathStep, PathSteps
from divergraph.ask.facts import Facts, upstream_of_each
from divergraph.ask.sentences import step_note
from graphstore.model import (
    ErrorSplit,
    Guilt,
    Level,
    MetricSet,
    OpState,
    Origin,
    Reason,
    Role,
    Side,
)
from graphstore.op_row import OpRow
from graphstore.traverse.algorithms import descendants
from graphstore.traverse.arrays import arrays_from_edges
from tests.made.op_columns import columns_of

SIZE = 9
METRICS = MetricSet(0.9, 1.0, 1.0, 0.1, 0.0, (0.0, 1.0, 0.0, 1.0), 0.1, 0.1, 0.1, 0.1, 4)
GAINS = st.sampled_from((None, 0.1, 0.79, 0.8, 1.0, 1.25, 1.3))
ROWS = st.lists(
    st.tuples(
        st.sampled_from((OpState.ORIGIN, OpState.INHERITED, OpState.CLEAN)),
        GAINS,
        st.sampled_from((None, Guilt.NONE, Guilt.GUILTY)),
        st.sampled_from((METRICS, METRICS, None)),
        st.sampled_from((Reason.INSERTED, None)),
    ),
    min_size=SIZE,
    max_size=SIZE,
)
EDGES = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), max_size=24)
PLACES = st.lists(st.integers(0, SIZE - 1), unique=True, max_size=3)


def op_row(number: int, given) -> OpRow:
    state, gain, guilt, metrics, reason = given
    name, split = f"op{number}", None if guilt is None else ErrorSplit(Role.CARRIES, guilt)
    return OpRow(
        number, name, name, "Add", Side.DEVICE, "", "", None, "", 1, (), state, None, 0,
        metrics, (), reason, "", gain, (), split,
    )  # fmt: skip


def others_of(graph: nx.DiGraph, origins: list[str], start: str, op: str) -> list[str]:
    """The origins but the start that an op is, or is downstream of, itself last."""
    found = [
        one for one in origins if one != start and op in {v for _, v in nx.edge_bfs(graph, one)}
    ]
    return [*found, op] if op in origins and op != start and op not in found else found


@given(ROWS, EDGES, PLACES, PLACES, st.data())
def test_steps_by_columns_are_those_of_each_op(given, edges, faulty, healed, data):
    ops = columns_of(list(map(op_row, range(SIZE), given)))
    pairs = [(min(pair), max(pair)) for pair in edges if pair[0] != pair[1]]
    pairs += [(number, number + 1) for number in range(0, SIZE - 1, 2)]
    arrays = arrays_from_edges(ops.ids, ([a for a, _ in pairs], [b for _, b in pairs]))
    graph = nx.DiGraph([(f"op{a}", f"op{b}") for a, b in pairs])
    graph.add_nodes_from(ops.ids)
    errors = np.array(
        data.draw(st.lists(st.sampled_from((0.0, 0.5, math.nan)), min_size=SIZE, max_size=SIZE))
    )
    origins = tuple(
        Origin(at, f"op{number}", "Add", 0, (), METRICS, Level.FAIL)
        for at, number in enumerate(faulty)
    )
    upstream = upstream_of_each(arrays, faulty)
    facts = Facts(Side.DEVICE, arrays, ops, None, origins, upstream=upstream)
    start = data.draw(st.integers(0, SIZE - 1))
    inside = np.zeros(SIZE, dtype=np.bool_)
    inside[descendants(arrays, [start])] = inside[start] = True
    path = [start]
    while len(following := arrays.successors(path[-1])):
        path.append(int(data.draw(st.sampled_from(following.tolist()))))
    healed_ops = [number for number in healed if inside[number]]
    region = ErrorRegion(facts, start, inside, np.array(healed_ops, np.int32), errors)
    column = np.array(path, dtype=np.int32)
    steps = PathSteps(region, column, region.joining(column))

    names = [one.op for one in origins]
    expected = []
    for at, number in enumerate(path):
        row, own = ops[number], others_of(graph, names, f"op{start}", f"op{number}")
        if at == 0:
            expected.append(PathStep(row, other_origins=tuple(own)))
            continue
        last = path[at - 1]
        fed = [one for one in arrays.predecessors(number).tolist() if one != last]
        joins = [f"op{one}" for one in fed if inside[one] and errors[one] != 0.0]
        clean = any(
            graph.in_degree(f"op{one}") and ops[one].metrics and not inside[one] for one in fed
        )
        shrinks = row.gain is not None and row.gain < ATTENUATES
        known = others_of(graph, names, f"op{start}", f"op{last}")
        new = tuple(one for one in own if one not in known and one != row.id)
        expected.append(
            PathStep(row, tuple(joins), new, bool(clean and shrinks), number in healed_ops)
        )
    assert list(steps) == expected
    assert [steps[at] for at in range(len(steps))] == expected
    assert [at for at, step in enumerate(expected) if step.joins] == np.flatnonzero(
        steps.joined
    ).tolist()

    lines = list(folded(steps))
    assert [step for _, part in lines for step in part] == expected
    for first, part in lines:
        assert first == 0 or len(part) == 1 or len(part) >= FEWEST
        if len(part) > 1:
            assert all(map(only_carries, part))
            assert 0 < first < first + len(part) < len(steps)
    for at in range(1, len(expected) - 1 - FEWEST):
        if all(map(only_carries, expected[at : at + FEWEST])):
            assert any(first <= at and at + FEWEST <= first + len(part) for first, part in lines)


def only_carries(step: PathStep) -> bool:
    gain = step.row.gain
    kept = gain is None or 0.8 <= gain <= 1.25
    return kept and not step_note(replace(step, joins=()))
