"""``divergraph lineage --unmatched`` lists what has no counterpart."""

from __future__ import annotations

import numpy as np
import pytest

GOLDEN = """node { name: "x" op: "Placeholder" } node { name: "lost" op: "Square" input: "x" }
node { name: "a" op: "Tanh" input: "x" }"""
DEVICE = """node { name: "x" op: "Placeholder" } node { name: "new" op: "Erf" input: "x" }
node { name: "a" op: "Tanh" input: "new" } node { name: "added" op: "Cast" input: "a" }"""


@pytest.fixture
def store(divergraph, tmp_path):
    rng = np.random.default_rng(1)
    sides = []
    for side, text, names in (("golden", GOLDEN, "xa"), ("device", DEVICE, ["x", "a", "new"])):
        (tmp_path / f"{side}.pbtxt").write_text(text)
        (tmp_path / side).mkdir()
        for name in names:
            value = np.full(6, ord(name[0])) if name != "new" else rng.standard_normal(6)
            np.save(tmp_path / side / f"{name}.0.1700000000000000.npy", value)
        sides += [f"--{side}", tmp_path / f"{side}.pbtxt", f"--{side}-dump", tmp_path / side]
    assert divergraph("compare", *sides, "--run", "r", "--store", tmp_path / "s").code == 0
    return tmp_path / "s"


def test_ops_of_both_sides_with_the_reason(divergraph, store):
    found = divergraph("lineage", "r", "--unmatched", "--json", "--store", store).json
    assert [(each["op"], each["reason"]) for each in found["device"]] == [("new", "unmatched")]
    assert "no tensor named 'new:0'" in found["device"][0]["detail"]
    assert found["golden"] == [{"op": "lost", "type": "Square"}]
    lines = divergraph("lineage", "r", "--unmatched", "--store", store).out.splitlines()
    assert lines[0] == "device: 1 op without a counterpart"
    assert lines[1].split()[:2] == ["Erf", "new"]
    assert lines[2:] == ["golden: 1 op without a counterpart", "  Square  lost"]


@pytest.mark.parametrize("arguments", [(), ("a", "--unmatched")])
def test_either_an_op_or_all(divergraph, store, arguments):
    done = divergraph("lineage", "r", *arguments, "--store", store)
    assert done.code == 2
    assert "either an op or --unmatched" in done.err
