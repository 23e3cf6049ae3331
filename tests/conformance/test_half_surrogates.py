"""Half surrogate pairs, which no database holds, come back as they were, whatever is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odd_run import odd_run

from graphstore.contract import GraphStore, RunData
from graphstore.model import Side

pytestmark = pytest.mark.thorough_on_neo4j

HALF = "\ud83d"


def half_run() -> RunData:
    data = odd_run()
    old, new = data.device.ops[0].id, f"half {HALF}"
    device, golden = (
        replace(
            graph,
            format=f"format {HALF}",
            ops=(replace(graph.ops[0], id=new, name=new), *graph.ops[1:]),
        )
        for graph in (data.device, data.golden)
    )
    return replace(
        data,
        device=device,
        golden=golden,
        links=tuple(
            replace(link, device=new, original=new) if link.device == old else link
            for link in data.links
        ),
        comparisons=tuple(
            replace(item, op=new, golden=replace(item.golden, op=new))
            if item.op == old and item.golden is not None
            else item
            for item in data.comparisons
        ),
        states={new if op == old else op: state for op, state in data.states.items()},
        origins=tuple(replace(origin, cause=f"cause {HALF}") for origin in data.origins),
    )


def test_ids_with_half_surrogates_come_back_from_every_question(store: GraphStore) -> None:
    data = half_run()
    store.save_run(data)
    name, half = data.run.name, data.device.ops[0].id
    assert store.states(name) == dict(data.states)
    found = store.comparisons(name)
    assert [item.op for item in found] == [item.op for item in data.comparisons]
    assert [item.golden for item in found] == [item.golden for item in data.comparisons]
    (one,) = store.comparisons(name, [half])
    assert (one.op, one.golden) == (half, data.comparisons[0].golden)
    assert store.links(name) == list(data.links)
    assert store.links(name, half) == store.links(name, half, Side.GOLDEN) == [data.links[-1]]
    assert store.origins(name)[0].cause == f"cause {HALF}"
    assert store.graph(name).format == f"format {HALF}"
    whole = store.run_data(name)
    assert (whole.links, whole.states) == (data.links, dict(data.states))
