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


def test_a_limit_says_of_what_it_shows_a_part(divergraph, two_runs):
    """The counts above a list are those of the whole."""
    of_run = ("first", "--store", two_runs)
    lines = divergraph("trace", *of_run, "--from", "conv", "--all", "--limit", 1)
    reached = int(lines.out.split(" reaches ")[1].split()[0])
    assert f"note: {reached} more: not listed because of --limit" in lines.err
    every = divergraph("lineage", *of_run, "--unmatched", "--json").json
    some = divergraph("lineage", *of_run, "--unmatched", "--limit", 1)
    for side in ("device", "golden"):
        count = len(every[side])
        assert f"{side}: {count} op" in some.out
        assert (f"{side}: {count} ops without a counterpart, the first 1" in some.out) == (
            count > 1
        )
    ops = len(divergraph("ops", *of_run, "--json").json["ops"])
    assert divergraph("-q", "ops", *of_run, "--limit", 1).out.endswith(f"\n1 of {ops} ops\n")
    for command in ("logs", "fusion", "gate"):
        assert "--limit" in divergraph(command, "--help").out


def test_a_limit_lists_the_newest_runs(divergraph, two_runs):
    some = divergraph("runs", "--limit", "1", "--json", "--store", two_runs)
    assert [run["run"] for run in some.json["runs"]] == ["second"]
    assert "note: 1 more" in some.err
