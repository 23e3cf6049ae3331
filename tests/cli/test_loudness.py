"""``-q``: the answer and errors only; ``-v``: what takes how long; ``--limit``: some of many."""

from __future__ import annotations

import re

import numpy as np
import pytest

DIFF = ("diff", "a.npy", "b.npy")


@pytest.fixture
def two_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        np.save(f"{name}.npy", np.ones(4, np.float32))


@pytest.mark.parametrize("line", [(*DIFF, "-v"), ("-v", *DIFF), (*DIFF, "--verbose")])
def test_verbose_says_on_standard_error_what_takes_how_long(divergraph, two_files, line):
    plain, told = divergraph(*DIFF), divergraph(*line)
    assert told.out == plain.out
    stages = re.findall(r"^ *[0-9]+[.][0-9]{3} s  (.+)$", told.err, re.MULTILINE)
    assert "looking at every element" in stages
    assert stages[-1].startswith("in all")
    assert divergraph(*DIFF).err == plain.err  # it ends with its command


def test_quiet_leaves_the_answer_and_errors(divergraph, two_runs, tmp_path):
    line = ("export", "first", "-o", tmp_path / "run.json", "--store", two_runs)
    assert divergraph(*line).err.startswith("wrote")
    assert divergraph(*line, "-q").err == ""
    refused = divergraph("-q", "export", "no", "-o", tmp_path / "run.json", "--store", two_runs)
    assert (refused.code, refused.err.partition(":")[0]) == (2, "divergraph")


def test_quiet_and_verbose_are_not_given_together(divergraph, two_files):
    assert "not both" in divergraph(*DIFF, "-q", "-v").err


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (("ops", "first"), "ops"),
        (("roles", "first"), "ops"),
        (("between", "first", "x", "conv"), "ops"),
        (("lineage", "first", "conv"), "links"),
    ],
)
def test_a_limit_lists_the_first_and_says_how_many_there_are_more(divergraph, two_runs, line, key):
    line = (*line, "--store", two_runs, "--json")
    every = divergraph(*line).json[key]
    some = divergraph(*line, "--limit", "1")
    assert some.json[key] == every[:1]
    assert (f"note: {len(every) - 1} more" in some.err) == (len(every) > 1)
    assert "more" not in divergraph(*line, "--limit", "1000").err


def test_a_limit_lists_the_newest_runs(divergraph, two_runs):
    some = divergraph("runs", "--limit", "1", "--json", "--store", two_runs)
    assert [run["run"] for run in some.json["runs"]] == ["second"]
    assert "note: 1 more" in some.err
