"""What holds paths and models' structure is for its user alone, but where a team shares it."""

from __future__ import annotations

import os

import pytest
from full_run import sample_run

from divergraph.ask.memory.notes import add_note
from graphstore.open_store import open_store
from graphstore.private_folder import private_folder


@pytest.fixture(autouse=True)
def umask_of_nobody():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path) -> int:
    return path.stat().st_mode & 0o777


def test_all_that_is_made_is_private_and_what_was_there_stays(tmp_path):
    private_folder(tmp_path / "a" / "b")
    assert [mode(tmp_path / "a"), mode(tmp_path / "a" / "b")] == [0o700, 0o700]
    (tmp_path / "team").mkdir(mode=0o770)
    private_folder(tmp_path / "team")
    assert mode(tmp_path / "team") == 0o770


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / "a").write_text("")
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(NotADirectoryError):
            private_folder(path)


def test_a_store(tmp_path):
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(sample_run("one"))
    assert mode(tmp_path / "store") == 0o700


def test_a_store_in_a_folder_a_team_made(tmp_path):
    (tmp_path / "store").mkdir(mode=0o770)
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(sample_run("one"))
    assert mode(tmp_path / "store") == 0o770


@pytest.mark.parametrize("folder", [0o700, 0o770])
def test_files_of_a_store_are_for_those_for_whom_its_folder_is(tmp_path, folder):
    root = tmp_path / "store"
    root.mkdir(mode=folder)
    os.umask(0o002)
    with open_store(str(root)) as store:
        store.save_run(sample_run("one"))
        store.save_run(sample_run("one"), replace=True)
        store.save_graph(sample_run("one").device, "graph")
        store.runs()
        add_note(store, "one", "conv", "known", "ada")
    found = [path for path in root.rglob("*") if not path.name.endswith("lock")]
    assert {mode(path) for path in found if path.is_dir()} == {folder}
    assert {mode(path) for path in found if path.is_file()} == {folder & 0o666}
