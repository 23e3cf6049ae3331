"""Notes and baselines on the command line, in Python and over HTTP."""

from __future__ import annotations

import pytest
from full_run import sample_run
from served import served

import divergraph as dg
from divergraph.ask.memory import baselines
from divergraph.server.settings import ServerSettings
from divergraph.server.tokens import TokenFile, UserRole
from graphstore.cypher.small_runs import small_run
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with two runs of one model."""
    monkeypatch.setenv("DIVERGRAPH_AUTHOR", "ada")
    url = str(tmp_path / "store")
    with open_store(url) as opened:
        for name in ("first", "second"):
            opened.save_run(sample_run(name))
    return url


def test_a_note_is_seen_in_every_run_of_its_model(divergraph, store):
    at = "--store", store
    note = divergraph("note", "add", "first", "conv", "known\x1b[31m\nfp16", *at, "--json").json
    assert (note["op"], note["author"], note["edited"]) == ("conv", "ada", None)
    listed = divergraph("ops", "second", "--where", "conv", *at)
    assert f"note on conv: known\\x1b[31m fp16  (ada, {note['created'][:10]})" in listed.out
    rows = divergraph("ops", "second", *at, "--json").json["ops"]
    assert [row["op"] for row in rows if row["team_notes"]] == ["conv"]
    edited = divergraph("note", "edit", note["id"], "solved", *at)
    assert (edited.code, "conv: solved  (ada" in edited.err) == (0, True)
    assert "solved" in divergraph("note", "list", "second", "conv", *at).out
    assert divergraph("note", "list", "second", "pool", *at).err == "there are no notes\n"
    assert divergraph("note", "delete", note["id"], *at, "--json").json == {"deleted": note["id"]}
    assert divergraph("note", "list", *at, "--json").json == {"notes": []}


def test_a_note_is_read_where_the_error_starts(divergraph, store):
    at = "--store", store
    (origin, *_) = divergraph("origins", "first", *at, "--json").json["origins"]
    golden = origin["golden"][0]["op"]
    divergraph("note", "add", "first", golden, "known", *at)
    said = divergraph("origins", "second", *at).out
    assert f"note on {golden}: known  (ada, " in said
    (again, *_) = divergraph("origins", "second", *at, "--json").json["origins"]
    assert [note["text"] for note in again["team_notes"]] == ["known"]
    assert f"note on {golden}: known  (ada, " in divergraph("trace", "second", *at).out
    (start, *_) = divergraph("trace", "second", *at, "--json").json["steps"]
    assert start["team_notes"] == again["team_notes"]


def test_a_device_op_stands_for_its_last_original(divergraph, store):
    added = divergraph("note", "add", "first", "block/relu", "x", "--output", "0", "--store", store)
    assert "block/relu:0: x" in added.err
    bookmark = divergraph("note", "add", "first", "conv", "--bookmark", "--store", store)
    assert "bookmark" in bookmark.err
    listed = divergraph("ops", "first", "--side", "golden", "--store", store).out
    assert "note on block/relu:0: x" in listed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("note add first gone text", "no op named 'gone'"),
        ("note add gone conv text", "no run named 'gone'"),
        ("note add first conv", "without a text"),
        ("note add first conv text --output 7", "has no output 7"),
        ("note add first trans text", "stands for no golden op"),
        ("note edit 00000000 text", "no note named '00000000'"),
        ("note delete ../x", "no note named '../x'"),
        ("baseline set gone", "no run named 'gone'"),
        ("baseline drop first", "no baseline of the model"),
    ],
)
def test_what_cannot_be_noted_is_said(divergraph, store, words, said):
    ended = divergraph(*words.split(), "--store", store)
    assert (ended.code, said in ended.err, ended.err.count("\n")) == (2, True, 1), ended.err


def test_runs_show_how_they_stand_against_the_baseline(divergraph, store):
    at = "--store", store
    assert divergraph("baseline", "list", *at).err == "no model has a baseline\n"
    divergraph("baseline", "set", "first", *at)
    listed = divergraph("runs", *at).out.splitlines()
    assert listed[1].strip() == "the baseline"
    assert listed[3].strip().startswith("same as first")
    runs = divergraph("runs", *at, "--json").json["runs"]
    assert [run["baseline"]["standing"] for run in runs] == ["baseline", "same"]
    assert divergraph("baseline", "list", *at, "--json").json["baselines"][0]["run"] == "first"
    gone = divergraph("delete", "first", *at)
    assert "it was the baseline of" in gone.err
    assert divergraph("baseline", "list", *at, "--json").json == {"baselines": []}
    assert divergraph("delete", "second", *at, "--json").json["baseline_of"] is None


WELL = "add: Add error=0.001 role=clean introduced=0.001 suspicion=1"
ILL = "add: Add error=0.5 origin role=introduces guilt=guilty introduced=0.5 suspicion=500"


def test_a_worse_run_says_what_decides(tmp_path):
    with open_store(tmp_path / "store") as opened, dg.Store(opened) as store:
        for name, line in (("good", WELL), ("worse", ILL), ("as good", WELL)):
            opened.save_run(small_run(name, [(1, line)], ""))
        store.set_baseline("good")
        found = {each.run: each for each in store.standings()}
        assert {name: each.standing.value for name, each in found.items()} == {
            "good": "baseline",
            "worse": "worse",
            "as good": "same",
        }
        (change,) = store.compare_runs("good", "worse").changes
        assert dict(found["worse"].changes) == {"newly guilty": 1}
        assert (found["worse"].decides, change.sentence.count("0.5, was 0.001")) == (
            change.sentence,
            1,
        )
        store.set_baseline("worse")
        assert {each.run: each.standing.value for each in store.standings()} == {
            "good": "better",
            "worse": "baseline",
            "as good": "better",
        }
        store.drop_baseline("good")
        assert not store.standings()


def test_a_list_reckons_what_one_waits_for_and_goes_on_the_next_time(tmp_path, monkeypatch):
    monkeypatch.setattr(baselines, "WAIT_SECONDS", 0)
    with open_store(tmp_path / "store") as opened, dg.Store(opened) as store:
        for name in ("good", "other", "third"):
            opened.save_run(small_run(name, [(1, WELL)], ""))
        store.set_baseline("good")
        seen = [sorted(each.standing.value for each in store.standings()) for _ in range(4)]
        assert [each.count("pending") for each in seen] == [2, 1, 0, 0]
        assert seen[-1] == ["baseline", "same", "same"]
        assert len(opened.standings()) == 3
        store.delete("good")
        assert opened.standings() == []


def test_analysts_write_and_change_their_own_over_http(divergraph, store, tmp_path):
    tokens = TokenFile(tmp_path / "tokens")
    bob, eve = tokens.add("bob", UserRole.ANALYST), tokens.add("eve", UserRole.ANALYST)
    reader, boss = tokens.add("rob", UserRole.READER), tokens.add("boss", UserRole.ADMIN)
    with served(ServerSettings(store, tokens=tokens.path, behind_proxy=True), bob) as client:

        def by(token: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {token}"}

        body = {"run": "first", "op": "conv", "text": "from afar", "output": 0}
        before = client.get("/v1/runs/first/ops").headers["etag"]
        note = client.post("/v1/notes", json=body).json()
        assert (note["author"], note["output"]) == ("bob", 0)
        assert client.get("/v1/runs/second/op?op=conv").json()["team_notes"] == [note]
        assert client.get("/v1/runs/first/ops").headers["etag"] != before
        place = f"/v1/notes/{note['id']}"
        assert client.post("/v1/notes", json=body, headers=by(reader)).status_code == 403
        assert client.put(place, json={"text": "x"}, headers=by(eve)).status_code == 403
        assert client.delete(place, headers=by(eve)).status_code == 403
        assert client.put(place, json={"text": "mine"}).json()["text"] == "mine"
        assert (
            client.get("/v1/notes").text
            == divergraph("note", "list", "--store", store, "--json").out
        )
        assert client.delete(place, headers=by(boss)).json() == {"deleted": note["id"]}
        assert client.delete(place).status_code == 404
        for wrong in ({"output": "x"}, {"text": 3}, {"bookmark": 1}, {"op": ""}, {"other": 1}):
            assert client.post("/v1/notes", json=body | wrong).status_code == 400
        assert client.put("/v1/runs/first/baseline").json()["author"] == "bob"
        assert client.get("/v1/runs").json()["runs"][1]["baseline"]["standing"] == "same"
        assert client.delete("/v1/runs/first/baseline").json()["run"] == "first"
        assert client.delete("/v1/runs/first/baseline").status_code == 404
