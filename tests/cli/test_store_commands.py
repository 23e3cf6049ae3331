"""Rename, copy, backup, restore, store: what they say, and how they refuse."""

from __future__ import annotations

import shlex
import shutil

import pytest
from store_contents import flip, tables_of

from divergraph.cli.main import run
from graphstore.embedded import EmbeddedStore

pytestmark = pytest.mark.thorough


def refused(ended, *words) -> None:
    assert ended.code == 2, ended
    assert ended.err.count("\n") == 1, ended.err
    for word in words:
        assert str(word) in ended.err


@pytest.fixture
def copied(divergraph, lenet_store, tmp_path):
    """A store of its own with the run ``fault``."""
    assert run(["copy", "fault", "--to", str(tmp_path / "own"), "--store", str(lenet_store)]) == 0
    return tmp_path / "own"


def test_a_new_name_is_used_everywhere(divergraph, copied):
    at = ("--store", copied)
    ended = divergraph("rename", "fault", "monday", *at)
    assert (ended.code, ended.out, ended.err) == (0, "", "fault is now monday\n")
    assert [each["run"] for each in divergraph("runs", *at, "--json").json["runs"]] == ["monday"]
    assert divergraph("origins", "monday", *at, "--json").json["run"] == "monday"
    asked = divergraph("query", "MATCH (r:Run) RETURN r.name", *at, "--json").json
    assert asked["rows"] == [["monday"]]
    refused(divergraph("origins", "fault", *at), "fault")
    refused(divergraph("rename", "fault", "x", *at), "fault")
    refused(divergraph("rename", "monday", "a/b", *at), "a/b")


@pytest.mark.slow
def test_copies_say_what_was_done(divergraph, copied, tmp_path):
    to = ("--to", tmp_path / "there", "--store", copied)
    assert divergraph("copy", "fault", *to).err == "run fault: added\n"
    assert divergraph("copy", "--all", *to).err == "run fault: unchanged\n"
    assert divergraph("copy", "fault", "--as", "twin", *to).err == "run twin: added\n"
    assert divergraph("rename", "twin", "other", "--store", tmp_path / "there").code == 0
    divergraph("delete", "fault", "--store", tmp_path / "there")
    divergraph("rename", "other", "fault", "--store", tmp_path / "there")
    assert divergraph("copy", "fault", *to).err == "run fault: unchanged\n", "the same again"
    refused(divergraph("copy", "fualt", *to), "fault")


def test_copies_that_cannot_be(divergraph, copied, tmp_path):
    for arguments in ((), ("fault", "--all"), ("a", "b", "--as", "c"), ("--all", "--as", "c")):
        ended = divergraph("copy", *arguments, "--to", tmp_path / "there", "--store", copied)
        assert ended.code == 2
    refused(divergraph("copy", "fault", "--to", "ftp://host", "--store", copied), "ftp")
    (tmp_path / "file").write_text("x")
    ended = divergraph("copy", "fault", "--to", tmp_path / "file", "--store", copied)
    assert ended.code == 3
    assert "not a folder" in ended.err
    assert not (tmp_path / "there").exists()


@pytest.mark.slow
def test_a_backup_and_back(divergraph, copied, tmp_path, lenet):
    file = tmp_path / "all.backup"
    divergraph("import", lenet / "model.ckpt.meta", "--name", "net", "--store", copied)
    assert "1 run and 1 graph" in divergraph("backup", file, "--store", copied).err
    back = ("--store", tmp_path / "back")
    assert divergraph("restore", file, "net", *back).err == "graph net: added\n"
    assert divergraph("restore", file, *back).err == "graph net: unchanged\nrun fault: added\n"
    assert divergraph("runs", *back).out == divergraph("runs", "--store", copied).out
    ops = ("ops", "fault", "--json")
    assert divergraph(*ops, *back).out == divergraph(*ops, "--store", copied).out


def test_backups_that_cannot_be(divergraph, copied, tmp_path):
    file = tmp_path / "x"
    refused(divergraph("backup", file, "nobody", "--store", copied), "nobody")
    (tmp_path / "empty").mkdir()
    refused(divergraph("backup", file, "--store", tmp_path / "empty"), "the store is empty")
    refused(divergraph("backup", tmp_path / "no" / "x", "--store", copied), "no such folder")
    refused(divergraph("backup", tmp_path, "--store", copied), "it is a folder")
    assert not file.exists()
    file.write_bytes(b"PK")
    refused(divergraph("restore", file, "--store", tmp_path / "new"), file, "zip file")
    refused(divergraph("restore", tmp_path / "gone", "--store", tmp_path / "new"), "No such file")
    assert not (tmp_path / "new").exists()
    divergraph("backup", file, "--store", copied)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1000])
    refused(divergraph("restore", file, "--store", tmp_path / "new"), file)
    divergraph("rename", "fault", "old", "--store", copied)
    assert file.read_bytes() == whole[:-1000], "a backup is only replaced when the next is whole"


def test_a_damaged_run_is_told_with_exit_code_3(divergraph, copied):
    at = ("--store", copied)
    flip(tables_of(copied / "runs" / "fault") / "Op.parquet")
    shutil.rmtree(copied / "scratch", ignore_errors=True)
    info = divergraph("store", "info", *at)
    assert info.code == 0
    assert "damaged  the run 'fault' is damaged" in info.out
    told = divergraph("store", "repair", *at)
    assert told.code == 3
    assert "--set-aside" in told.out
    ended = divergraph("origins", "fault", *at)
    assert (ended.code, "store repair --set-aside" in ended.err) == (3, True)
    moved = divergraph("store", "repair", "--set-aside", *at)
    assert (moved.code, "moved to damaged/runs-fault" in moved.out) == (0, True)
    assert divergraph("store", "repair", *at).err == "nothing to repair\n"


def test_the_same_import_twice_is_once(divergraph, lenet, tmp_path):
    command = ("import", lenet / "model.ckpt.meta", "--store", tmp_path / "store")
    first = divergraph(*command, "--json").json
    assert first["unchanged"] is False
    again = divergraph(*command, "--json").json
    assert again == {**first, "unchanged": True}
    name = first["graph"]
    said = divergraph(*command, "--name", name)
    assert (said.code, f"{name}: already there, unchanged" in said.err) == (0, True)
    assert divergraph(*command, "--name", name, "--replace", "--json").json["unchanged"] is True
    moved = tmp_path / "moved" / "model.ckpt.meta"
    moved.parent.mkdir()
    moved.write_bytes((lenet / "model.ckpt.meta").read_bytes())
    elsewhere = divergraph("import", moved, "--store", tmp_path / "store", "--json").json
    assert elsewhere["unchanged"] is True
    twin = divergraph(*command, "--name", "twin", "--json").json
    assert (twin["unchanged"], twin["graph"]) == (False, "twin")
    assert len(divergraph("runs", "--store", tmp_path / "store", "--json").json["graphs"]) == 2


def test_another_graph_of_a_taken_name_is_refused(divergraph, lenet, tmp_path):
    at = ("--name", "net", "--store", tmp_path / "store")
    assert divergraph("import", lenet / "model.ckpt.meta", *at).code == 0
    device = lenet / "npu_fault" / "graph"
    refused(divergraph("import", device, *at), "'net'", "--replace")
    assert divergraph("import", device, *at, "--replace", "--json").json["unchanged"] is False


def test_a_store_that_cannot_be_written_is_said_before_the_work(divergraph, tmp_path):
    (tmp_path / "file").write_text("x")
    store = tmp_path / "file" / "store"
    for command in (
        ("compare", "--golden", "g", "--golden-dump", "d", "--device", "x", "--device-dump", "y"),
        ("import", "no such model"),
    ):
        ended = divergraph(*command, "--store", store)
        assert ended.code == 3
        assert "cannot write the store" in ended.err, "said before the missing input"


def test_a_run_name_that_is_none_is_said_before_the_work(divergraph, tmp_path):
    ended = divergraph(
        *("compare", "--golden", "g", "--golden-dump", "d", "--device", "x", "--device-dump", "y"),
        *("--run", "../x", "--store", tmp_path / "store"),
    )
    refused(ended, "../x")


def test_help_of_the_store_commands(divergraph):
    for command in (["rename"], ["copy"], ["backup"], ["restore"], ["store"], ["store", "info"]):
        ended = divergraph(*command, "--help")
        assert ended.code == 0
        assert "Usage: divergraph" in ended.out


def test_the_url_of_info_is_that_of_the_store(divergraph, copied):
    printed = divergraph("store", "info", "--store", copied, "--json").json
    with EmbeddedStore(copied) as store:
        assert printed["url"] == store.url
        assert printed["runs"] == len(store.runs())


@pytest.mark.parametrize(
    "line",
    [
        "runs",
        "ops x",
        "query 'RETURN 1 AS x'",
        "store info",
        "store repair",
        "backup FILE",
        "copy x --to FILE",
        "gate x --baseline y",
    ],
)
def test_reading_a_store_that_is_not_there_says_so(divergraph, tmp_path, line):
    """It would look like an empty store, as if its runs were gone."""
    words = [str(tmp_path / "file") if word == "FILE" else word for word in shlex.split(line)]
    nowhere = tmp_path / "nowhere"
    for given in (nowhere, f"file://{nowhere}"):
        refused(divergraph(*words, "--store", given), "there is no store", "nowhere", "--store")
    (tmp_path / "model.onnx").touch()
    refused(divergraph(*words, "--store", tmp_path), "the folder holds no store")
    (tmp_path / ".divergraph").mkdir()
    refused(divergraph(*words, "--store", tmp_path), "did you mean", ".divergraph?")
    assert {path.name for path in tmp_path.iterdir()} == {"model.onnx", ".divergraph"}
