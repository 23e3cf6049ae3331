"""A backup file is checked before it is believed: one sentence, and nothing written."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from full_run import sample_run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphstore.contract import GraphStore
from graphstore.embedded import EmbeddedStore
from graphstore.errors import InputError
from graphstore.transfer.backup import MANIFEST, write_backup
from graphstore.transfer.copying import whole_run_hash
from graphstore.transfer.restore import open_backup, restore

RUN, METRICS = "runs/first/manifest.json", "runs/first/tables/Metric.parquet"


@pytest.fixture(scope="session")
def kept_backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a run and a graph."""
    folder = tmp_path_factory.mktemp("backup")
    path = folder / "good.backup"
    with EmbeddedStore(folder / "origin") as store, path.open("wb") as file:
        store.save_run(sample_run("first"))
        store.save_graph(sample_run("x").golden, "graph")
        list(write_backup(store, file))
    return path


@pytest.fixture
def good(tmp_path: Path, kept_backup: Path) -> Path:
    """That backup, for this test alone."""
    return Path(shutil.copy(kept_backup, tmp_path))


@pytest.fixture
def first(test_data: Path) -> Path:
    """One of format version 1, with the runs ``first`` and ``second``, a graph, a note and a
    baseline."""
    return test_data / "stores" / "version_1.backup"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path / "store") as embedded:
        yield embedded
        assert not (tmp_path / "store").exists(), "nothing was written"


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def made(path: Path, members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def edited(members: dict[str, bytes], name: str, /, **change: Any) -> dict[str, bytes]:
    """*members* with other values in the JSON object *name*, without its checksum."""
    value = {key: old for key, old in json.loads(members[name]).items() if key != "checksum"}
    return {**members, name: json.dumps(value | change).encode()}


def same(store: GraphStore, run: str) -> bool:
    """True if *run* of *store* is the sample of that name."""
    return whole_run_hash(store.run_data(run)) == whole_run_hash(sample_run(run))


def refused(path: Path, store: EmbeddedStore, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught, open_backup(path) as backup:
        list(restore(backup, store))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_backup(tmp_path: Path, store: EmbeddedStore) -> None:
    for content in (b"", b"PK\x03\x04", b"x" * 100, b"PK\x05\x06" + b"\0" * 18):
        path = tmp_path / "file"
        path.write_bytes(content)
        refused(path, store, "zip file")
    refused(tmp_path / "gone", store, "No such file")
    refused(tmp_path, store, "Is a directory")
    refused(Path("/dev/null"), store, "zip file")


@pytest.mark.parametrize("share", [0.1, 0.9, 0.999])
def test_a_truncated_file(good: Path, store: EmbeddedStore, share: float) -> None:
    whole = good.read_bytes()
    good.write_bytes(whole[: int(len(whole) * share)])
    refused(good, store, "not a whole zip file")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
def test_a_changed_byte_is_found_or_harmless(
    good: Path, tmp_path: Path, share: float, value: int
) -> None:
    whole = bytearray(good.read_bytes())
    whole[int(len(whole) * share)] = value
    path = tmp_path / "changed"
    path.write_bytes(whole)
    with suppress(InputError), open_backup(path) as backup:
        assert same(backup.store, "first")
        assert backup.store.graph("graph") == sample_run("first").golden


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 3}, r"format version 3, this program reads up to 2 \(use the divergraph"),
        ({"version": "1"}, "format version '1'"),
        ({"format": "other"}, "does not say it is a backup"),
    ],
)
def test_a_list_of_contents_of_something_else(
    good: Path, tmp_path: Path, store: EmbeddedStore, change: dict[str, Any], said: str
) -> None:
    refused(made(tmp_path / "wrong", edited(contents(good), MANIFEST, **change)), store, said)
    no_object = {**contents(good), MANIFEST: b"[]"}
    refused(made(tmp_path / "list", no_object), store, "does not say it is a backup")


@pytest.mark.parametrize(
    "name",
    [
        *("../../out.jsonl", "/abs.jsonl", "extra.txt", "scratch/view/graph.lbug"),
        *("runs/a/b/manifest.json", "runs/first/tables/../../x.parquet", "shared/../store.json"),
    ],
)
def test_a_member_that_is_none(good: Path, tmp_path: Path, store: EmbeddedStore, name: str) -> None:
    path = made(tmp_path / "more", {**contents(good), name: b"x"})
    refused(path, store, "is not part of a backup")


@pytest.mark.parametrize("name", ["..", ".hidden", "a\nb", "a\\b"])
def test_an_entry_that_would_leave_its_folder(
    good: Path, tmp_path: Path, store: EmbeddedStore, name: str
) -> None:
    path = made(tmp_path / "escape", {**contents(good), f"runs/{name}/manifest.json": b"{}"})
    refused(path, store, "cannot be a name|has .* in it|not part of")


def test_tables_that_were_changed_are_missing_or_there_twice(
    good: Path, tmp_path: Path, store: EmbeddedStore
) -> None:
    members = contents(good)
    damaged = r"the run 'first' is damaged: Metric\.parquet is missing, cut or changed"
    without = {name: data for name, data in members.items() if name != METRICS}
    refused(made(tmp_path / "missing", without), store, damaged)
    changed = {**members, METRICS: members[METRICS][:-1] + b"x"}
    refused(made(tmp_path / "changed", changed), store, damaged)
    with zipfile.ZipFile(good, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(METRICS, b"other")
    refused(good, store, "two members of one name")


@pytest.mark.slow
def test_a_bomb_is_not_unpacked(good: Path, tmp_path: Path, store: EmbeddedStore) -> None:
    members = contents(good)
    path = made(tmp_path / "bomb", {**members, METRICS: b" " * 2**28})
    assert path.stat().st_size < 2**20
    refused(path, store, "far more than a backup of its length")
    whole = path.read_bytes()
    honest = struct.pack("<L", len(members[METRICS]))
    path.write_bytes(whole.replace(struct.pack("<L", 2**28), honest))
    refused(path, store, "cannot be unpacked")
    too_long = edited({MANIFEST: members[MANIFEST]}, MANIFEST, padding="x" * 2**25)
    refused(made(tmp_path / "manifest", too_long), store, "is too long")


def test_a_member_packed_in_another_way(good: Path, tmp_path: Path, store: EmbeddedStore) -> None:
    path = made(tmp_path / "lzma", contents(good), zipfile.ZIP_LZMA)
    refused(path, store, "packed in an unknown way|cannot be unpacked")


def test_a_run_that_was_made_up_with_right_sums(
    good: Path, tmp_path: Path, store: EmbeddedStore
) -> None:
    members = contents(good)
    for change in ({"run": 7}, {"run": {"name": "first"}}, {"device": {}}, {"shared": "../x"}):
        path = made(tmp_path / "record", edited(members, RUN, **change))
        refused(path, store, "'first' is damaged")
    other = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ["no number"], "weather": ["fine"]}), other)
    tables = json.loads(members[RUN])["tables"]
    data = other.getvalue().to_pybytes()
    facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    tables["files"]["Metric.parquet"] = facts
    path = made(tmp_path / "table", {**edited(members, RUN, tables=tables), METRICS: data})
    refused(path, store, r"Metric\.parquet is no table of a store")


def test_the_file_needs_no_program_of_ours_to_be_read(good: Path, tmp_path: Path) -> None:
    """Plain zip, plain Parquet, SHA-256: as docs/how-to/stores.md says."""
    with zipfile.ZipFile(good) as archive:
        archive.extractall(tmp_path / "unpacked")
    for manifest in (tmp_path / "unpacked").glob("*/*/manifest.json"):
        tables = json.loads(manifest.read_text())["tables"]
        for name, facts in tables["files"].items():
            table = manifest.parent / tables["folder"] / name
            assert hashlib.sha256(table.read_bytes()).hexdigest() == facts["sha256"]
            assert pq.read_table(table).num_rows
    with EmbeddedStore(tmp_path / "unpacked") as unpacked:
        assert same(unpacked, "first")


def test_a_backup_of_format_version_1_is_restored(first: Path, tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "restored") as store, open_backup(first) as backup:
        assert {entry.name for entry in backup.entries} == {"first", "second", "imported"}
        assert {copied.done for copied in restore(backup, store)} == {"added"}
        assert same(store, "first")
        assert same(store, "second")
        assert store.graph("imported") == sample_run("first").golden
        assert [info.created for info in store.graphs()] == ["2020-01-01T00:00:00+00:00"]
        assert [note.text for note in store.notes()] == ["it is the bias"]
        assert [baseline.run for baseline in store.baselines()] == ["first"]


@pytest.mark.parametrize(
    "change",
    [
        *({"entries": [7]}, {"entries": [{"kind": "run", "name": "../x"}]}, {"members": []}),
        *({"notes": 3}, {"notes": [{"id": 1}]}, {"baselines": [{"model": 1}]}),
        {"entries": [{"kind": "graph", "name": "../x", "created": "", "device": "graphs/000001"}]},
    ],
)
def test_a_backup_of_format_version_1_that_was_made_up(
    first: Path, tmp_path: Path, store: EmbeddedStore, change: dict[str, Any]
) -> None:
    refused(made(tmp_path / "wrong", edited(contents(first), MANIFEST, **change)), store, "wrong")


def test_a_changed_member_of_format_version_1(
    first: Path, tmp_path: Path, store: EmbeddedStore
) -> None:
    members = contents(first)
    name = "runs/000003.jsonl"
    members[name] = members[name].replace(b"conv", b"vnoc")
    refused(made(tmp_path / "changed", members), store, "000003.jsonl|cannot be read")
