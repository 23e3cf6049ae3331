"""Several runs, ranks and steps in one folder: told apart, listed, chosen."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphstore.errors import InputError
from importers.contract import Confidence
from importers.dumps.contract import DumpChoice
from importers.dumps.detect import detect_dumps, list_dumps
from importers.dumps.folder import find_dump_folder

GRAPH = "ge_default_20220926160231_61"
STAMP = 1664180560000000


@pytest.fixture
def tree(tmp_path, write_dump, dumped):
    """Two times, two devices, two steps of one model."""
    for time in ("20220926160240", "20220927000000"):
        for device in ("0", "3"):
            for step in ("0", "10"):
                folder = tmp_path / time / device / GRAPH / "61" / step
                write_dump(folder / f"Add.a.1.1.{STAMP}", [dumped(np.ones(3, np.float32))])
    return tmp_path


def test_a_choice_is_followed_at_every_level(tree):
    found = find_dump_folder(tree, GRAPH, DumpChoice("20220926160240", 3, 61, 10))
    assert found.path == tree / "20220926160240" / "3" / GRAPH / "61" / "10"
    assert found.decided == {"time", "rank", "model_id", "step"}
    assert found.reason == f"model folder {GRAPH} has the graph's name"


def test_the_one_that_fits_a_choice_is_not_called_the_only_one(tree):
    found = find_dump_folder(tree, None, DumpChoice("20220926160240", 3, 61, 10))
    assert found.reason == "the only one that fits of 8 folders with dump files"


def test_without_a_choice_the_reason_says_what_there_is(tree):
    found = find_dump_folder(tree, GRAPH)
    assert "device 0 is the lowest of 2 (--rank: 0, 3)" in found.reason
    assert "step 0 is the first of 2 with files (--step: 0, 10)" in found.reason
    assert not found.decided


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (DumpChoice(step=4), "no step 4 in this dump .--step is one of 0, 10."),
        (DumpChoice(rank=1), "no device 1 in this dump .--rank is one of 0, 3."),
        (DumpChoice(model_id=7), "no model id 7 in this dump .--model-id is one of 61."),
        (DumpChoice(time="20200101000000"), "--time is one of 20220926160240, 20220927000000"),
    ],
)
def test_what_is_not_there_is_listed(tree, choice, said):
    with pytest.raises(InputError, match=said):
        find_dump_folder(tree, GRAPH, choice)


def test_steps_and_ranks_of_msprobe(tmp_path):
    for step in (0, 5):
        for rank in (0, 1):
            folder = tmp_path / f"step{step}" / f"rank{rank}"
            folder.mkdir(parents=True)
            (folder / "dump.json").write_text(json.dumps({"data": {}}))
    assert find_dump_folder(tmp_path, None).path == tmp_path / "step0" / "rank0"
    chosen = find_dump_folder(tmp_path, None, DumpChoice(step=5, rank=1))
    assert chosen.path == tmp_path / "step5" / "rank1"
    # Given one level further down, the level above is still known.
    assert find_dump_folder(tmp_path / "step5", None).path == tmp_path / "step5" / "rank0"
    listed = list_dumps(tmp_path)
    assert [(dump.kind, dump.step, dump.rank) for dump in listed] == [
        ("msprobe", step, rank) for step in "05" for rank in "01"
    ]


def test_steps_of_mindspore(tmp_path):
    for step in ("0", "1"):
        folder = tmp_path / "rank_2" / "net" / "7" / step
        folder.mkdir(parents=True)
        np.save(folder / f"Add.a.0.0.{STAMP}.output.0.DefaultFormat.npy", np.ones(3))
    (first, second) = list_dumps(tmp_path)
    assert (first.rank, first.model, first.model_id, first.step) == ("2", "net", "7", "0")
    assert second.step == "1"
    assert find_dump_folder(tmp_path, None, DumpChoice(step=1, rank=2)).path == second.path


def test_each_kind_is_told_with_its_reason(tmp_path, write_dump, dumped):
    write_dump(tmp_path / f"Add.a.1.1.{STAMP}", [dumped(np.ones(3, np.float32))])
    np.save(tmp_path / f"b.0.{STAMP}.npy", np.ones((2, 2)))
    (tmp_path / f"Add.c.1.1.{STAMP}.csv").write_text("Input/Output,Index\n")
    found = detect_dumps(tmp_path)
    assert {dump.kind for dump in found} == {"ascend", "npy", "statistics"}
    assert all(dump.confidence is Confidence.SURE and dump.files == 1 for dump in found)
    reasons = {dump.kind: dump.reason for dump in found}
    assert "ascend_v2" in reasons["ascend"]
    assert "shape [2, 2]" in reasons["npy"]


def test_a_name_alone_is_not_sure(tmp_path):
    (tmp_path / f"Add.a.1.1.{STAMP}").write_text("not a dump at all")
    (dump,) = detect_dumps(tmp_path)
    assert (dump.kind, dump.confidence) == ("ascend", Confidence.MAYBE)
    assert "not an Ascend dump" in dump.reason


def test_other_folders_hold_no_dumps(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "config.json").write_text('{"a": 1}')
    assert detect_dumps(tmp_path) == ()
    assert list_dumps(tmp_path) == ()


def test_links_out_of_the_tree_are_not_followed(tmp_path, tree):
    root = tmp_path / "given"
    root.mkdir()
    (root / "away").symlink_to(tree / "20220926160240")
    with pytest.raises(InputError, match="no dump files"):
        find_dump_folder(root, GRAPH)
