"""``divergraph dumps`` lists what a folder holds."""

from __future__ import annotations

import numpy as np

MODEL = "ge_default_20220926160231_61"


def test_every_dump_is_listed_with_its_levels(divergraph, lenet):
    listed = divergraph("dumps", lenet, "--json").json["dumps"]
    ascend = [dump for dump in listed if dump["kind"] == "ascend"]
    assert {(dump["rank"], dump["model"], dump["step"], dump["files"]) for dump in ascend} == {
        ("0", MODEL, "0", 126)
    }
    assert all(dump["sure"] and "header of kind ascend_v2" in dump["reason"] for dump in ascend)
    (golden,) = [dump for dump in listed if dump["kind"] == "npy"]
    assert (golden["files"], golden["time"]) == (150, None)


def test_the_table_leaves_out_levels_nothing_has(divergraph, lenet):
    done = divergraph("dumps", lenet / "golden")
    heads, line = done.out.splitlines()
    assert "step" not in heads
    assert line.split() == ["npy", "150", "."]


def test_steps_are_listed_as_they_are_counted(divergraph, tmp_path):
    for step in ("10", "5", "0"):
        folder = tmp_path / "20261127133632/0/net/1" / step
        folder.mkdir(parents=True)
        np.save(folder / "a.0.1795786592000000.npy", np.ones(2))
    listed = divergraph("dumps", tmp_path, "--json").json["dumps"]
    assert [dump["step"] for dump in listed] == ["0", "5", "10"]


def test_a_folder_without_dumps_is_one_sentence(divergraph, tmp_path):
    done = divergraph("dumps", tmp_path)
    assert done.code == 2
    assert "no dump files here or below" in done.err
    assert len(done.err.splitlines()) == 1


def test_of_files_that_only_diff_reads_it_is_said(divergraph, tmp_path):
    np.savez(tmp_path / "values.npz", a=np.ones(3))
    done = divergraph("dumps", tmp_path)
    assert (done.code, "values.npz holds a tensor; diff reads it" in done.err) == (2, True)
