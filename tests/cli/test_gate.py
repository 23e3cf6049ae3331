"""``gate``: an op that got worse does not pass; a file stands for the older run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from analysed_runs import analysed_runs

from divergraph.ask.gate.fingerprints import fingerprint
from divergraph.ask.origin_answers import origins
from divergraph.present.run_report import stored_report
from divergraph.present.sarif_report import sarif_report
from graphstore.model import Verdict
from graphstore.open_store import open_store

PATHS = ("--golden", "m", "--golden-dump", "m", "--device", "m", "--device-dump", "m")
"""None of them is there: nothing is compared before the baseline is known."""


@pytest.fixture(scope="module")
def analysed(tmp_path_factory) -> str:
    """A store with the run ``bad``, one weight of which is off, and ``worse``, with more of it."""
    folder = tmp_path_factory.mktemp("gate")
    analysed_runs(folder, str(folder / "store"))
    return str(folder / "store")


@pytest.fixture
def gate(divergraph, analysed, monkeypatch):
    monkeypatch.setenv("DIVERGRAPH_AUTHOR", "ada")
    return lambda *words: divergraph("gate", *words, "--store", analysed)


def test_what_was_guilty_before_passes_and_what_is_newly_guilty_does_not(gate, tmp_path):
    file = tmp_path / "baseline.json"
    assert gate("bad", "--baseline", file, "--update").code == 0
    same = gate("bad", "--baseline", file)
    assert same.code == 0
    assert "bad may pass: of " in same.out
    assert "is still guilty" in same.out
    for baseline in ("bad", file):
        worse = gate("worse", "--baseline", baseline)
        assert worse.code == 1
        assert f"worse may not pass: 1 op worse than in {baseline}" in worse.out
        assert "fc is still guilty: introduced error 1, was 0.5, 2.0x as much" in worse.out
    better = gate("bad", "--baseline", "worse")
    assert (better.code, "passes: " in better.out) == (0, True)


def test_what_the_baseline_holds_for_innocent_must_stay_so(gate, tmp_path):
    file = tmp_path / "baseline.json"
    gate("bad", "--baseline", file, "--update")
    kept = json.loads(file.read_text())
    for output in kept["outputs"]:
        output |= {"guilt": "none", "error": 1e-4, "weight": [0, 1.0]}
    file.write_text(json.dumps(kept))
    done = gate("bad", "--baseline", file)
    assert (done.code, "fc is newly guilty: introduced error 0.5" in done.out) == (1, True)


def test_what_is_accepted_stands_in_the_file_with_who_and_why(gate, tmp_path):
    file = tmp_path / "baseline.json"
    gate("bad", "--baseline", file, "--update")
    (change,) = gate("worse", "--baseline", file, "--json").json["worse"]
    said = gate("worse", "--baseline", file, "--accept", change["op"], "--reason", "known: #12")
    assert said.code == 0
    (entry,) = json.loads(file.read_text())["accepted"]
    assert (entry["golden"], entry["by"], entry["reason"]) == (
        change["golden"],
        "ada",
        "known: #12",
    )
    after = gate("worse", "--baseline", file)
    assert after.code == 0
    assert f"accepted: {change['golden']} by ada" in after.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bad", "--baseline", "nobody"), "no such baseline: neither a file nor a run"),
        (("nobody", "--baseline", "bad"), "no run named 'nobody'"),
        (("--baseline", "bad"), "which run?"),
        (("bad", "--baseline", "bad", "--reason", "x"), "give --accept OP too"),
        (("bad", "--baseline", "bad", "--golden", "m.onnx"), "belong together"),
        (("x", "--baseline", "nobody", *PATHS), "no such baseline: neither a file nor a run"),
        (("bad", "--baseline", "FILE", "--accept", "nobody"), "no op whose output was compared"),
        (("bad", "--baseline", "FILE", "--accept", "x", "--update"), "give one of them"),
    ],
)
def test_what_cannot_be_done_is_said(gate, tmp_path, words, said):
    file = tmp_path / "baseline.json"
    gate("bad", "--baseline", file, "--update")
    kept = file.read_bytes()
    done = gate(*(file if word == "FILE" else word for word in words))
    assert (done.code, said in done.err) == (2, True), done.err
    assert file.read_bytes() == kept


@pytest.mark.parametrize("how", [["--update"], ["--accept", "fc"], ["--baseline", "bad"]])
def test_an_undecided_run_is_no_baseline(divergraph, analysed, tmp_path, how):
    at, file = tmp_path / "store", tmp_path / "baseline.json"
    divergraph("gate", "bad", "--baseline", file, "--update", "--store", analysed)
    kept = file.read_bytes()
    with open_store(analysed) as before, open_store(at) as store:
        data = before.run_data("bad")
        store.save_run(replace(data, run=replace(data.run, verdict=Verdict.UNDECIDED)))
    done = divergraph("gate", "bad", "--baseline", file, *how, "--store", at)
    assert (done.code, "bad is undecided" in done.err, file.read_bytes()) == (2, True, kept)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"divergraph_baseline": 2}',
        '{"divergraph_baseline": 1, "run": "a", "created": "", "method": "root-cause", '
        '"suspect": 6, "accepted": [], "outputs": [{"golden": 3}]}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_one_sentence(gate, tmp_path, text):
    file = tmp_path / "baseline.json"
    file.write_text(text)
    done = gate("bad", "--baseline", file)
    assert done.code == 2
    assert str(file) in done.err
    assert "baseline" in done.err
    assert len(done.err.splitlines()) == 1


def test_sarif_has_a_result_for_each_origin_that_keeps_its_fingerprint(analysed):
    with open_store(analysed) as store:
        both = [json.loads(sarif_report(stored_report(store, name))) for name in ("bad", "worse")]
        prints = [
            {fingerprint(one) for one in origins(store, name).origins} for name in ("bad", "worse")
        ]
    for document, expected in zip(both, prints, strict=True):
        (run,) = document["runs"]
        errors = [one for one in run["results"] if one["level"] == "error"]
        assert {one["partialFingerprints"]["divergraphFault/v1"] for one in errors} == expected
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        assert all(rules[one["ruleIndex"]] == one["ruleId"] for one in run["results"])
        assert all(rule.isidentifier() for rule in rules)
    assert prints[0] == prints[1], "the same original with the same cause"
