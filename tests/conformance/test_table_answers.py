"""What is answered from tables is what the engine answers to the same text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from full_run import sample_run
from hostile_run import hostile_run
from odd_run import odd_run

from graphstore.contract import RunData
from graphstore.cypher.limits import NO_LIMITS
from graphstore.cypher.queries import Dialect, _texts, load
from graphstore.cypher.traversals import ON_ARRAYS
from graphstore.embedded import EmbeddedStore
from graphstore.embedded.table_answers import plain
from graphstore.schema.stored_graph import first_id

OWN = sorted({stem.partition(".")[0] for stem in _texts() if not stem.endswith(".neo4j")})
PLAIN = [name for name in OWN if plain(load(name, Dialect.EMBEDDED).text) is not None]


def test_only_questions_about_several_runs_need_the_engine() -> None:
    several = {"guilty_originals", "guilty_patterns", "introduced_changes"}
    assert {*OWN} - {*PLAIN} - {*ON_ARRAYS} == several


@pytest.mark.parametrize("make", [sample_run, odd_run, hostile_run])
def test_tables_answer_as_the_engine_does(tmp_path: Path, make: Callable[[], RunData]) -> None:
    data = make()
    with EmbeddedStore(tmp_path) as store:
        store.save_run(data)
        name = data.run.name
        place = store._place(name)
        node, original = first_id(place.device), first_id(place.golden or "")
        size = len(data.device.ops)
        values = {"first_node": node, "end_node": node + size, "end_topo": size}
        values |= {"whole_topo": size - 1, "end_target": size // 2, "first": 0, "until": size}
        values |= {"node": node, "port": 0, "times": 1.5, "op": node + size // 2}
        lists = {"ids": [node, original + 1], "ops": [node + 1, node, node + 1], "firsts": [0, 7]}
        ids = store.arrays(name).ids
        texts = {"names": [ids[0], "none", ids[-1]], "name": f"{ids[0]}:0", "limit": 3, "text": "O"}
        keys = {"run": place.run, "golden": place.golden, "device": place.device}
        params = {**values, **lists, **texts, **keys, "graph": place.device}
        for query in PLAIN:
            text = load(query, Dialect.EMBEDDED)
            asked = {key: value for key, value in params.items() if f"${key}" in text.text}
            if query == "lineage_of_original_op":
                asked["op"] = original
            rows = store._database_of(name).ask(text.text, asked, NO_LIMITS)
            table = store._from_tables(store._known(name), text, asked)
            assert (table is None) == (query == "runs"), "it says the run's name of now"
            if table is not None:
                answer = store._ask(place, text, asked)
                assert answer.columns == rows.columns, query
                in_order = list if "ORDER BY" in text.text else lambda rows: sorted(rows, key=repr)
                assert in_order(answer.rows) == in_order(rows.rows), query
