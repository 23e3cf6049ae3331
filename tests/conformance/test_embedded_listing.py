"""The listing of runs is right whatever happened to it or to the runs since."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from graphstore.embedded import EmbeddedStore
from graphstore.model import Run

MANY = 220


def listed(root: Path, *, read_only: bool = False) -> list[Run]:
    with EmbeddedStore(root, read_only=read_only) as store:
        return store.runs()


@pytest.fixture
def many(tmp_path: Path, sample_run) -> Path:
    """A store of many runs: manifests of one under other names."""
    with EmbeddedStore(tmp_path) as store:
        store.save_run(sample_run("first"))
    manifest = tmp_path / "runs" / "first" / "manifest.json"
    for number in range(MANY):
        copied = tmp_path / "runs" / f"copy-{number:03}"
        copied.mkdir()
        shutil.copyfile(manifest, copied / manifest.name)
    return tmp_path


def test_the_second_listing_says_the_same_and_reads_no_manifest(many: Path) -> None:
    runs = listed(many)
    assert len(runs) == MANY + 1
    path = many / "runs" / "copy-007" / "manifest.json"
    status = path.stat()
    path.write_text("{}")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert listed(many) == runs
    assert [run.analysis for run in listed(many)] == [run.analysis for run in runs]


def test_what_changed_since_is_read_anew(many: Path, sample_run) -> None:
    runs = {run.name: run for run in listed(many)}
    with EmbeddedStore(many) as store:
        store.rename("copy-001", "renamed")
        store.delete("copy-002")
        data = sample_run("copy-003")
        newer = replace(data.run, created="2031-01-01T00:00:00+00:00")
        store.save_run(replace(data, run=newer), replace=True)
        found = {run.name: run for run in store.runs()}
        assert store.runs()[-1] == newer
    expected = {**runs, "renamed": replace(runs["copy-001"], name="renamed"), "copy-003": newer}
    del expected["copy-001"], expected["copy-002"]
    assert found == expected
    assert {run.name: run for run in listed(many)} == expected


@pytest.mark.parametrize(
    "how", ["lost", "cut", "flipped", "empty", "of another version", "a folder"]
)
def test_a_listing_that_is_not_right_is_made_again(many: Path, how: str) -> None:
    runs = listed(many)
    path = many / "listing"
    whole = path.read_bytes()
    path.unlink()
    if how == "cut":
        path.write_bytes(whole[:-100])
    elif how == "flipped":
        path.write_bytes(whole.replace(b"copy-010", b"copy-0I0"))
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "of another version":
        path.write_bytes(b"99" + whole.partition(b" ")[2])
    elif how == "a folder":
        path.mkdir()
    assert listed(many) == runs
    assert path.is_dir() or json.loads(path.read_bytes().partition(b"\n")[2])["runs"]
    assert not list(many.glob(".writing-*"))
    assert listed(many) == runs


def test_who_only_reads_writes_none(many: Path) -> None:
    assert len(listed(many, read_only=True)) == MANY + 1
    assert not (many / "listing").exists()
