"""A run finds its files again from whatever folder it is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from divergraph.inputs.kept_paths import kept_path, with_folder
from graphstore.errors import InputError
from graphstore.model import Counts, Method, Run, Verdict


def run_made_of(**inputs: str) -> Run:
    return Run(
        "r", "g", "d", "2026-01-01T00:00:00.000", Verdict.CLEAN, Method.THRESHOLDS,
        Counts(0, 0, 0, 0, 0), {}, with_folder(inputs),
    )  # fmt: skip


def test_a_relative_path_is_that_of_the_folder_the_run_was_made_in(tmp_path: Path, monkeypatch):
    for project in ("one", "two"):
        (tmp_path / project / "dump").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "one")
    run = run_made_of(device_dump="dump")
    monkeypatch.chdir(tmp_path / "two")
    assert kept_path(run, "device_dump").samefile(tmp_path / "one" / "dump")


def test_a_project_may_move_with_its_store(tmp_path: Path, monkeypatch):
    (tmp_path / "old" / "dump").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "old")
    run = run_made_of(device_dump="dump")
    (tmp_path / "old").rename(tmp_path / "new")
    monkeypatch.chdir(tmp_path / "new")
    assert kept_path(run, "device_dump").samefile(tmp_path / "new" / "dump")


def test_runs_of_older_versions_know_no_folder(tmp_path: Path, monkeypatch):
    (tmp_path / "dump").mkdir()
    monkeypatch.chdir(tmp_path)
    run = replace(run_made_of(), inputs={"device_dump": "dump"})
    assert kept_path(run, "device_dump").samefile(tmp_path / "dump")


def test_a_run_that_does_not_say_is_an_input_error():
    with pytest.raises(InputError, match="does not say where its golden was"):
        kept_path(run_made_of(), "golden")


def test_what_is_gone_is_said_with_its_full_path(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="this was the device dump of run 'r'") as raised:
        kept_path(run_made_of(device_dump="dump"), "device_dump")
    assert raised.value.where == str(tmp_path / "dump")
