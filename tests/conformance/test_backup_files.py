"""A backup file is checked before it is believed: one sentence, and nothing written."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from full_run import sample_run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphstore.embedded import EmbeddedStore
from graphstore.errors import DivergraphError, InputError
from graphstore.transfer.backup import MANIFEST, write_backup
from graphstore.transfer.restore import open_backup, restore


@pytest.fixture(scope="session")
def kept_backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of two runs and a graph."""
    folder = tmp_path_factory.mktemp("backup")
    path = folder / "good.backup"
    with EmbeddedStore(folder / "origin") as store, path.open("wb") as file:
        store.save_run(sample_run("first"))
        store.save_run(sample_run("second"))
        store.save_graph(sample_run("x").golden, "graph")
        list(write_backup(store, file))
    return path


@pytest.fixture
def good(tmp_path: Path, kept_backup: Path) -> Path:
    """That backup, for this test alone."""
    return Path(shutil.copy(kept_backup, tmp_path))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path / "store") as embedded:
        yield embedded
        assert not (tmp_path / "store").exists(), "nothing was written"


def restored(path: Path, store: EmbeddedStore) -> None:
    with open_backup(path) as backup:
        list(restore(backup, store))


def contents(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop(MANIFEST)), members


def made(
    path: Path, manifest: object, members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED
) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr(MANIFEST, json.dumps(manifest))
    return path


def with_right_sums(manifest: dict[str, Any], members: dict[str, bytes]) -> dict[str, Any]:
    sums = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
    return {**manifest, "members": sums}


def refused(path: Path, store: EmbeddedStore, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        restored(path, store)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_backup(tmp_path: Path, store: EmbeddedStore) -> None:
    for content in (b"", b"PK\x03\x04", b"x" * 100, b"PK\x05\x06" + b"\0" * 18):
        path = tmp_path / "file"
        path.write_bytes(content)
        refused(path, store, "zip file")
    refused(tmp_path / "gone", store, "No such file")
    refused(tmp_path, store, "Is a directory")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99, 0.999])
def test_a_truncated_file(good: Path, store: EmbeddedStore, share: float) -> None:
    whole = good.read_bytes()
    good.write_bytes(whole[: int(len(whole) * share)])
    refused(good, store, "not a whole zip file")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
def test_a_changed_byte_is_found_or_harmless(
    good: Path, tmp_path: Path, share: float, value: int
) -> None:
    whole = bytearray(good.read_bytes())
    whole[int(len(whole) * share)] = value
    path = tmp_path / "changed"
    path.write_bytes(whole)
    names = {"first", "second", "graph"}
    with suppress(InputError), open_backup(path) as backup:
        backup.check(backup.entries)
        names = {entry.name for entry in backup.entries}
    assert names == {"first", "second", "graph"}


def test_a_changed_member_is_named(good: Path, tmp_path: Path, store: EmbeddedStore) -> None:
    manifest, members = contents(good)
    name = sorted(members)[0]
    members[name] = members[name].replace(b"conv", b"vnoc")
    refused(made(tmp_path / "changed", manifest, members), store, f"{name}: .*SHA-256")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 3}, r"format version 3, this program reads 1 only \(use the divergraph"),
        ({"version": "1"}, "format version '1'"),
        ({"format": "other"}, "does not say it is a backup"),
        ({"entries": None}, "lists no entries"),
        ({"entries": [7]}, "an entry that is none"),
        ({"entries": [{"kind": "run"}]}, "an entry that is none"),
        ({"members": []}, "lists no members"),
    ],
)
def test_a_wrong_list_of_contents(
    good: Path, tmp_path: Path, store: EmbeddedStore, change: dict[str, Any], said: str
) -> None:
    manifest, members = contents(good)
    refused(made(tmp_path / "wrong", {**manifest, **change}, members), store, said)
    refused(made(tmp_path / "list", [manifest], members), store, "does not say it is a backup")


@pytest.mark.parametrize("name", ["../out", "/etc/x", "a/b", "..", "", "a\nb", ".hidden"])
def test_an_entry_that_would_leave_its_folder(
    good: Path, tmp_path: Path, store: EmbeddedStore, name: str
) -> None:
    manifest, members = contents(good)
    manifest["entries"][0]["name"] = name
    refused(made(tmp_path / "escape", manifest, members), store, "cannot be named so")


@pytest.mark.parametrize("name", ["../../out.jsonl", "/abs.jsonl", "graphs/../../x", "extra.txt"])
def test_a_member_that_is_none(good: Path, tmp_path: Path, store: EmbeddedStore, name: str) -> None:
    manifest, members = contents(good)
    more = {**members, name: b"x"}
    refused(made(tmp_path / "more", manifest, more), store, "is not part of a backup")
    listed = with_right_sums(manifest, more)
    refused(made(tmp_path / "listed", listed, more), store, "is not part of a backup")


def test_a_member_that_is_missing_or_there_twice(
    good: Path, tmp_path: Path, store: EmbeddedStore
) -> None:
    manifest, members = contents(good)
    name = sorted(members)[0]
    less = {key: data for key, data in members.items() if key != name}
    refused(made(tmp_path / "less", manifest, less), store, f"'{name}' is missing")
    with zipfile.ZipFile(good, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(name, b"other")
    refused(good, store, "two members of one name")


def test_two_entries_of_one_name(good: Path, tmp_path: Path, store: EmbeddedStore) -> None:
    manifest, members = contents(good)
    manifest["entries"].append(manifest["entries"][0])
    refused(made(tmp_path / "twice", manifest, members), store, "two entries have one name")


@pytest.mark.slow
def test_a_bomb_is_not_unpacked(good: Path, tmp_path: Path, store: EmbeddedStore) -> None:
    manifest, members = contents(good)
    name = sorted(members)[0]
    members[name] = b" " * 2**28
    path = made(tmp_path / "bomb", with_right_sums(manifest, members), members)
    assert path.stat().st_size < 2**20
    refused(path, store, "far more than a backup of its length")
    manifest["padding"] = "x" * 2**25
    refused(made(tmp_path / "manifest", manifest, {}), store, "is too long")


@pytest.mark.slow
def test_a_bomb_that_lies_about_its_length(
    good: Path, tmp_path: Path, store: EmbeddedStore
) -> None:
    manifest, members = contents(good)
    name = sorted(members)[0]
    honest = manifest["members"][name]["bytes"]
    members[name] = b" " * 2**28
    path = made(tmp_path / "bomb", manifest, members)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(struct.pack("<L", 2**28), struct.pack("<L", honest)))
    refused(path, store, f"{name}")


def test_a_member_packed_in_another_way(good: Path, tmp_path: Path, store: EmbeddedStore) -> None:
    path = made(tmp_path / "lzma", *contents(good), zipfile.ZIP_LZMA)
    refused(path, store, "packed in an unknown way|cannot be unpacked")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda lines: [b"nothing of this\n"],
        lambda lines: [*lines[:1], b'["state","conv","no such state"]\n'],
        lambda lines: [*lines[:1], b'["link"]\n'],
        lambda lines: [*lines[:1], b'["comparison",{"op":7}]\n'],
        lambda lines: [*lines[:1], b'["weather","fine"]\n'],
        lambda lines: [lines[0].replace(b'"first"', b'"second"'), *lines[1:]],
        lambda lines: [line for line in lines if b'"state"' not in line],
        lambda lines: [],
    ],
)
def test_a_run_that_was_made_up_with_right_sums(
    good: Path, tmp_path: Path, store: EmbeddedStore, spoil: Callable[[list[bytes]], list[bytes]]
) -> None:
    manifest, members = contents(good)
    first = next(entry for entry in manifest["entries"] if entry["name"] == "first")
    manifest["entries"] = [first]
    members = {name: members[name] for name in (first["run"], first["golden"], first["device"])}
    lines = members[first["run"]].splitlines(keepends=True)
    members[first["run"]] = b"".join(spoil(lines))
    path = made(tmp_path / "made up", with_right_sums(manifest, members), members)
    refused(path, store, first["run"])


def test_a_graph_with_two_ops_of_one_id(good: Path, tmp_path: Path, store: EmbeddedStore) -> None:
    manifest, members = contents(good)
    graph = next(entry for entry in manifest["entries"] if entry["name"] == "graph")
    manifest["entries"] = [graph]
    lines = members[graph["device"]].splitlines(keepends=True)
    members = {graph["device"]: b"".join([*lines, lines[-1]])}
    path = made(tmp_path / "twice", with_right_sums(manifest, members), members)
    refused(path, store, "two ops have one id")


def test_a_pipe_is_no_file_to_restore_from(tmp_path: Path, store: EmbeddedStore) -> None:
    with pytest.raises(DivergraphError, match=r"cannot be read|zip file"):
        restored(Path("/dev/null"), store)


def test_the_file_needs_no_program_of_ours_to_be_read(good: Path) -> None:
    """Plain zip, plain JSON lines, SHA-256: as docs/how-to/stores.md says."""
    manifest, members = contents(good)
    assert (manifest["format"], manifest["version"]) == ("divergraph-backup", 1)
    for name, facts in manifest["members"].items():
        assert hashlib.sha256(members[name]).hexdigest() == facts["sha256"]
        assert all(json.loads(line) for line in members[name].splitlines())
    run = next(entry for entry in manifest["entries"] if entry["kind"] == "run")
    assert json.loads(members[run["run"]].splitlines()[0])["verdict"] == "diverged"
