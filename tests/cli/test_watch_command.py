"""``watch``: a real process writes real dumps, file by file, and is watched by another."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from full_run import sample_run

from graphstore.model import Reason
from graphstore.open_store import open_store

JOB = """
import sys
from pathlib import Path

clean, fault, root = map(Path, sys.argv[1:4])
for step, source in enumerate((clean, fault)):
    place = root / f"step{step}" / "rank0"
    place.mkdir(parents=True)
    held = None
    for path in sorted(source.iterdir()):
        data = path.read_bytes()
        file = (place / path.name).open("wb")
        file.write(data[: len(data) // 2])
        file.flush()
        if held is not None:
            held[0].write(held[1])
            held[0].close()
        held = file, data[len(data) // 2 :]
    held[0].write(held[1])
    held[0].close()
    if step == 0:
        print("step0", flush=True)
        sys.stdin.readline()
"""
"""A job that writes each file in two halves, the next one begun before one is closed; between two
steps it waits to be told to go on."""


def files(lenet: Path, side: str) -> Path:
    (folder,) = {p.parent for p in (lenet / f"npu_{side}" / "dump").rglob("*") if p.is_file()}
    return folder


def words(lenet: Path, folder: Path, store: Path, *more: str) -> list[str]:
    sides = ["--golden", lenet / "model.ckpt.meta", "--golden-dump", lenet / "golden"]
    sides += ["--device", lenet / "npu_clean" / "graph", "--method", "thresholds"]
    return list(map(str, ["watch", folder, *sides, "--store", store, "--settle", "0.3", *more]))


@pytest.mark.slow
def test_a_job_is_watched_to_its_first_guilty_op(divergraph, lenet, tmp_path):
    root, store = tmp_path / "dump", tmp_path / "store"
    job = [sys.executable, "-c", JOB, files(lenet, "clean"), files(lenet, "fault"), root]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(job, **pipes) as running:
        assert running.stdout.readline() == b"step0\n"
        first = divergraph(*words(lenet, root, store, "--idle", "0.1", "--json"))
        running.stdin.write(b"go on\n")
        running.stdin.close()
        ended = divergraph(*words(lenet, root, store, "--until-guilty", "--json"))
        assert running.wait(60) == 0
    assert (first.code, ended.code) == (0, 1)
    told = first.json["dumps"] + ended.json["dumps"]
    assert [(each["run"], each["verdict"]) for each in told] == [
        ("watched.step0.rank0", "within_rounding"),
        ("watched.step1.rank0", "diverged"),
    ]
    assert ended.json["first"] == told[1]
    with open_store(store) as opened:
        compared = {run.counts.compared for run in opened.runs()}
        halves = [
            each
            for run in opened.runs()
            for each in opened.comparisons(run.name)
            if each.reason is Reason.UNREADABLE_DUMP
        ]
    assert (len(compared), halves) == (1, []), "whole dumps, and no half of a file"


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c_heard")
def test_it_rings_and_ctrl_c_ends_it_with_what_was_compared(lenet, tmp_path):
    root, store = tmp_path / "dump", tmp_path / "store"
    shutil.copytree(files(lenet, "fault"), root / "step0" / "rank0")
    arguments = ["-m", "divergraph", *words(lenet, root, store)]
    running = pexpect.spawn(sys.executable, arguments, encoding="utf-8", timeout=200)
    running.expect("watched.step0.rank0: diverged, the error starts at LeNet")
    running.expect("\a")
    running.sendintr()
    running.expect(pexpect.EOF)
    said = running.before
    running.wait()
    assert ("Traceback" in said, "kept 1 run " in said, running.exitstatus) == (False, True, 1)
    with open_store(store) as opened:
        assert [run.name for run in opened.runs()] == ["watched.step0.rank0"]
        assert opened.check() == ()


def test_what_cannot_be_watched_is_said(divergraph, lenet, tmp_path):
    store, root = tmp_path / "store", tmp_path / "dump"
    ended = divergraph(*words(lenet, root / "gone" / "dump", store))
    assert (ended.code, "there is no such folder" in ended.err) == (2, True)
    (root / "step0").mkdir(parents=True)
    (root / "step0" / "x.0.1.npy").write_bytes(b"no array")
    ended = divergraph(*words(lenet, root, store, "--idle", "0.1"))
    assert ended.code == 2
    assert f"note: {root / 'step0'}: nothing in it could be compared" in ended.err
    assert [path.name for path in root.iterdir()] == ["step0"]


def test_a_run_of_another_dump_is_left_alone(divergraph, lenet, tmp_path):
    store, root = tmp_path / "store", tmp_path / "dump"
    (root / "step0").mkdir(parents=True)
    (root / "step0" / "x.0.1.npy").write_bytes(b"no array")
    with open_store(store) as opened:
        opened.save_run(sample_run("watched.step0"))
    ended = divergraph(*words(lenet, root, store, "--idle", "0.1"))
    assert (ended.code, "a run named 'watched.step0' of another dump" in ended.err) == (2, True)
