"""A store behind a server of ours is read as the store itself, whatever store that is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from full_run import sample_run
from served import served

from divergraph.ask.memory.baselines import set_baseline
from divergraph.ask.memory.notes import add_note, edit_note
from divergraph.server.settings import ServerSettings
from divergraph.server.tokens import TokenFile, UserRole
from graphstore.contract import GraphStore, QueryParameters
from graphstore.cypher.queries import list_queries
from graphstore.errors import InputError, QueryError, StoreError, UnknownNameError
from graphstore.model import Side
from graphstore.open_store import open_store
from graphstore.remote.connection import TOKEN_VARIABLE
from graphstore.remote.wire import keys_json

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture(scope="module")
def filled(module_store: GraphStore) -> GraphStore:
    """A store with a run and a graph."""
    module_store.save_run(sample_run("first"))
    add_note(module_store, "first", "conv", "known: \x1b[31m", "ada")
    module_store.save_graph(sample_run("first").device, "graph")
    return module_store


@pytest.fixture
def remote(filled: GraphStore, address: str, tmp_path: Path) -> Iterator[GraphStore]:
    """The same store, asked over HTTP."""
    with (
        served(ServerSettings(address, tokens=tmp_path / "none")) as client,
        open_store(str(client.base_url)) as store,
    ):
        yield store


def test_what_is_kept_is_the_same(filled: GraphStore, remote: GraphStore) -> None:
    assert remote.runs() == filled.runs()
    assert remote.graphs() == filled.graphs()
    assert remote.run_data("first") == filled.run_data("first")
    assert remote.notes() == filled.notes()
    assert replace(remote.info(), url="") == replace(filled.info(), url="")
    for target, side in (("first", Side.DEVICE), ("first", Side.GOLDEN), ("graph", Side.DEVICE)):
        assert remote.graph(target, side) == filled.graph(target, side)
        ids = filled.arrays(target, side).ids
        assert remote.arrays(target, side).ids == ids
        assert remote.ops(target, ids[:3], side) == filled.ops(target, ids[:3], side)
        lists = [
            [(list(part.types), list(part.partners)) for part in store.listed_ops(target, side)]
            for store in (remote, filled)
        ]
        assert lists[0] == lists[1]
        for op in ids:
            if target == "first":
                assert remote.links("first", op, side) == filled.links("first", op, side)
    assert remote.comparisons("first", ["conv"]) == filled.comparisons("first", ["conv"])
    columns = remote.link_columns("first"), filled.link_columns("first")
    assert columns[0].devices.tolist() == columns[1].devices.tolist()


def test_named_queries_and_own_ones_have_the_same_rows(
    filled: GraphStore, remote: GraphStore
) -> None:
    params = {"op": "conv", "start": "conv", "end": "pool", "limit": 3, "pattern": "conv"}
    asked = 0
    for query in list_queries():
        if set(query.parameters) <= set(params):
            given = {name: params[name] for name in query.parameters}
            answers = [
                store.named(query.name, "first", given, limit=2) for store in (remote, filled)
            ]
            assert answers[0] == answers[1], query.name
            asked += 1
    assert asked > 15
    own = "MATCH (o:Op) RETURN o, o.name, [o.name, o.type], {a: o.topo} ORDER BY o.name"
    parameters = QueryParameters(limit=4)
    assert remote.query(own, parameters) == filled.query(own, parameters)
    assert remote.explain(own, parameters)
    with pytest.raises(QueryError, match="only read"):
        remote.query("MATCH (o) DETACH DELETE o", parameters)


def test_what_is_not_there(remote: GraphStore) -> None:
    with pytest.raises(UnknownNameError, match="did you mean first"):
        remote.run("frist")
    with pytest.raises(UnknownNameError, match="it is an imported graph"):
        remote.run("graph")
    with pytest.raises(StoreError, match="not written from here"):
        remote.save_run(sample_run("other"))


def test_who_asks_may_what_their_role_may(
    filled: GraphStore, address: str, tmp_path: Path, monkeypatch
) -> None:
    tokens = TokenFile(tmp_path / "tokens")
    known = {role: tokens.add(role.value, role) for role in UserRole}
    with served(ServerSettings(address, behind_proxy=True, tokens=tmp_path / "tokens")) as client:
        url = str(client.base_url)

        @contextmanager
        def as_role(role: UserRole) -> Iterator[GraphStore]:
            monkeypatch.setenv(TOKEN_VARIABLE, known[role])
            with open_store(url) as store:
                yield store

        with open_store(url) as store, pytest.raises(InputError, match=f"export {TOKEN_VARIABLE}"):
            store.runs()
        with as_role(UserRole.READER) as store:
            assert [run.name for run in store.runs()] == ["first"]
            with pytest.raises(InputError, match="this needs the role analyst"):
                add_note(store, "first", "conv", "me too", "somebody else")
        with as_role(UserRole.ANALYST) as store:
            note = add_note(store, "first", "conv", "me too", "somebody else")
            edit_note(store, note.id, "me, too")
            set_baseline(store, "first", "somebody else")
            kept = {each.id: each for each in filled.notes()}[note.id]
            assert (kept.author, kept.text) == ("analyst", "me, too")
            assert [each.author for each in filled.baselines()] == ["analyst"]
            (other,) = (each for each in store.notes() if each.author == "ada")
            with pytest.raises(InputError, match="ada wrote it"):
                edit_note(store, other.id, "no")
            store.delete_note(note.id)
            store.drop_baseline(store.baselines()[0].model)
            assert not filled.baselines()
            store.rename("graph", "other")
            assert [info.name for info in filled.graphs()] == ["other"]
            store.rename("other", "graph")
            with pytest.raises(InputError, match="this needs the role admin"):
                store.delete("graph")


def test_what_no_store_would_ask_is_refused(tmp_path: Path, monkeypatch) -> None:
    url = str(tmp_path / "store")
    with open_store(url) as store:
        store.save_run(sample_run("first"))
        place = keys_json(store.place("first"))
    asked = {"place": place, "query": "run_record", "values": {"run": place["run"]}}
    own = {"cypher": "RETURN 1", "limit": 1, "timeout": 1}
    wrong = [
        ("rows", {**asked, "limit": "x"}),
        ("rows", {**asked, "limit": 0}),
        ("rows", {**asked, "timeout": [1]}),
        ("rows", {**asked, "values": []}),
        ("rows", {**asked, "place": {"name": 1}}),
        ("rows", {**asked, "place": "first"}),
        ("table", {**asked, "query": None}),
        ("query", {**own, "limit": True}),
        ("query", {**own, "target": ["first"]}),
        ("query", {**own, "timeout": None, "limit": None}),
        ("plan", {}),
        ("keep-note", {"text": "{}"}),
        ("keep-baseline", {"text": "[]"}),
    ]
    with served(ServerSettings(url, tokens=tmp_path / "none")) as client:
        assert client.post("/v1/store/rows", json=asked).status_code == 200
        assert client.post("/v1/store/query", json=own).status_code == 200
        for what, body in wrong:
            answered = client.post(f"/v1/store/{what}", json=body)
            assert answered.status_code == 400, (what, body, answered.text)
        assert client.post("/v1/store/save", json={}).status_code == 404
        pack = "// Answers: all ops.\n// Columns: op\nMATCH (o:Op) RETURN o.name AS op\n"
        (tmp_path / "mine.cypher").write_text(pack)
        monkeypatch.setenv("DIVERGRAPH_PACKS", str(tmp_path))
        other = {"place": place, "query": "mine"}
        refused = client.post("/v1/store/rows", json=other)
        assert (refused.status_code, "of a pack" in refused.text) == (400, True)


def test_a_server_that_is_gone_or_is_none(tmp_path: Path) -> None:
    with served(ServerSettings(str(tmp_path / "store"), tokens=tmp_path / "none")) as client:
        url = str(client.base_url)
        store = open_store(url)
        assert store.runs() == []
    with pytest.raises(StoreError, match="cannot reach the server: nothing listens there"):
        store.runs()
    with pytest.raises(InputError, match="it is no address of a server"):
        open_store("http://host/path")
    with pytest.raises(InputError, match="is seen by others"):
        open_store("http://ada:secret@host")
