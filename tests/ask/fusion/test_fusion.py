"""``divergraph fusion``: the pass behind a guilty op, its switch, and a run made without it."""

from __future__ import annotations

import json

import pytest

from divergraph.ask.fusion_passes import chosen_passes, switch_text

pytestmark = pytest.mark.thorough

FUSED, PASS = "LeNet/conv2/Conv2DRelu", "ConvBiasReluFusionPass"


@pytest.fixture
def ask(divergraph, store):
    return lambda *arguments: divergraph("fusion", *arguments, "--store", store)


def test_the_pass_of_the_guilty_op_is_named(ask):
    found = ask("on", "--json").json
    (op,) = found["ops"]
    assert (op["op"], op["guilty"], len(op["originals"])) == (FUSED, True, 3)
    assert op["passes"] == [{"name": PASS, "section": "GraphFusion"}]
    assert json.loads(found["switch"])["Switch"]["GraphFusion"] == {PASS: "off"}


def test_text_says_where_the_graph_names_none(ask):
    assert f"{PASS} (GraphFusion)" in ask("on").out
    said = ask("on", "LeNet/conv1/Conv2DRelu").out
    assert "the graph names no pass" in said


def test_passes_in_effect_are_read_from_the_compilers_file(ask, store):
    path = store.parent / "graph" / "fusion_result.json"
    assert f"{PASS}: 2 of 3" in ask("on", "--result", path).out
    assert "Unused" not in ask("on", "--result", path).out
    failed = ask("on", "--result", store.parent / "no.json")
    assert (failed.code, failed.err.count("\n")) == (2, 1)


def test_the_switch_file_switches_it_off(ask, tmp_path):
    path = tmp_path / "fusion_switch.cfg"
    assert ask("on", "--write", path, "--off", "TbeOtherPass").code == 0
    assert json.loads(path.read_text()) == {
        "Switch": {"GraphFusion": {PASS: "off"}, "UBFusion": {"TbeOtherPass": "off"}}
    }
    nothing = ask("off", "--write", tmp_path / "none.cfg")
    assert nothing.code == 2
    assert "--off ALL" in nothing.err


def test_all_passes_off_is_what_precision_tool_ships():
    assert json.loads(switch_text(chosen_passes(["ALL"]), indent=2)) == {
        "Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}
    }


@pytest.mark.parametrize(
    ("other", "code", "verdict", "words"),
    [
        ("off", 1, "the_pass", f"it was the pass {PASS}"),
        ("alone", 0, "not_the_pass", "still starts at LeNet/conv2/BiasAdd"),
        ("again", 0, "still_fused", "its pass was not off there"),
    ],
)
def test_a_run_without_fusion_says_whether_it_was_the_pass(ask, other, code, verdict, words):
    done = ask("on", "--against", other)
    assert done.code == code
    assert words in done.out
    found = ask("on", "--against", other, "--json").json
    assert [each["verdict"] for each in found["ops"]] == [verdict]


def test_runs_of_other_models_cannot_say(ask):
    assert ask("on", "--against", "nobody").code == 2
    assert ask("on", "--against", "off", "--off", "ALL").code == 2
