"""Notes and baselines on every store: kept by model, through renames, copies and backups."""

from __future__ import annotations

from dataclasses import replace

import pytest
from full_run import sample_run

from graphstore.contract import GraphStore
from graphstore.embedded import EmbeddedStore
from graphstore.errors import InputError, StoreError, UnknownNameError
from graphstore.model import Baseline, Note
from graphstore.transfer.backup import write_backup
from graphstore.transfer.copying import copy_entries, copy_entry
from graphstore.transfer.restore import open_backup, restore

pytestmark = pytest.mark.thorough

MODEL = sample_run("x").run.golden
NOTE = Note("00aa11bb", MODEL, "conv", "known: \x1b[31m fp16", "ada", "2026-01-01T00:00:00Z")
MARK = Note("11aa11bb", "other@1", "a/b", "", "bob", "2026-01-02T00:00:00Z", 1, None, True)


def baseline(run: str) -> Baseline:
    data = sample_run(run).run
    return Baseline(data.golden, run, data.created, "ada", "2026-01-01T00:00:00Z")


def test_notes_are_kept_edited_and_deleted(store: GraphStore) -> None:
    assert store.notes() == []
    store.keep_note(MARK)
    store.keep_note(NOTE)
    assert store.notes() == [NOTE, MARK], "oldest first"
    assert store.notes(MODEL) == [NOTE]
    edited = replace(NOTE, text="solved\n\ud83d", edited="2026-02-01T00:00:00Z")
    store.keep_note(edited)
    assert store.notes(MODEL) == [edited]
    store.delete_note(NOTE.id)
    assert store.notes() == [MARK]
    for unknown in (NOTE.id, "../../x", ""):
        with pytest.raises(UnknownNameError):
            store.delete_note(unknown)


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": " \n"},
        {"text": "x" * 10_001},
        {"op": ""},
        {"id": "../../etc"},
        {"output": -1},
        {"author": None},
    ],
)
def test_what_is_no_note_is_refused(store: GraphStore, wrong) -> None:
    with pytest.raises(InputError):
        store.keep_note(replace(NOTE, **wrong))
    assert store.notes() == []


def test_a_baseline_follows_its_run(store: GraphStore) -> None:
    store.save_run(sample_run("good"))
    store.keep_baseline(baseline("good"))
    store.rename("good", "best")
    assert store.baselines() == [baseline("good").__class__(MODEL, "best", *_rest("good"))]
    store.keep_note(NOTE)
    store.delete("best")
    assert store.baselines() == []
    assert store.notes() == [NOTE], "notes are of the model"
    with pytest.raises(UnknownNameError):
        store.drop_baseline(MODEL)


def _rest(run: str) -> tuple[str, str, str]:
    kept = baseline(run)
    return kept.made, kept.author, kept.created


def test_copies_take_along_what_is_said_of_their_models(store: GraphStore, tmp_path) -> None:
    for name in ("good", "bad"):
        store.save_run(sample_run(name))
    store.keep_baseline(baseline("good"))
    store.keep_note(NOTE)
    store.keep_note(MARK)
    with EmbeddedStore(tmp_path / "copy") as target:
        copy_entry(store, target, "bad")
        assert (target.notes(), target.baselines()) == ([NOTE], [])
        newer = replace(NOTE, text="ours", edited="2027-01-01T00:00:00Z")
        target.keep_note(newer)
        copy_entry(store, target, "good", new_name="fine")
        assert target.notes() == [newer], "what was written last stays"
        assert [each.run for each in target.baselines()] == ["fine"]
    with EmbeddedStore(tmp_path / "all") as target:
        list(copy_entries(store, target, ["good", "bad"]))
        assert (target.notes(), target.baselines()) == ([NOTE], [baseline("good")])


def test_a_backup_has_what_is_said_of_its_models(store: GraphStore, tmp_path) -> None:
    store.save_run(sample_run("good"))
    store.keep_baseline(baseline("good"))
    store.keep_note(NOTE)
    store.keep_note(MARK)
    path = tmp_path / "backup"
    with path.open("wb") as file:
        list(write_backup(store, file))
    store.delete("good")
    store.delete_note(NOTE.id)
    with open_backup(path) as backup:
        list(restore(backup, store))
        list(restore(backup, store))
    assert (store.notes(), store.baselines()) == ([NOTE, MARK], [baseline("good")])


def test_damage_is_found_and_set_aside(tmp_path) -> None:
    with EmbeddedStore(tmp_path / "store") as store:
        store.keep_note(NOTE)
        (path,) = (tmp_path / "store/memory/notes").iterdir()
        path.write_text(path.read_text().replace("ada", "eve"))
        with pytest.raises(StoreError, match="does not say what was written"):
            store.notes()
        assert "memory/notes/00aa11bb.json is damaged" in store.check()[0]
        store.repair()
        assert store.check()
        assert "moved to damaged/notes-00aa11bb.json" in store.repair(set_aside=True)[0]
        assert (store.check(), store.notes()) == ((), [])
