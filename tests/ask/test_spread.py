"""Who makes an error and where it goes: real runs of a small network."""

from __future__ import annotations

from dataclasses import replace

import pytest

import divergraph
from divergraph.ask.error_paths.path_compression import folded
from divergraph.ask.facts import op_rows
from divergraph.ask.origin_answers import origins
from divergraph.ask.questions.roles import role_table
from divergraph.ask.traces import trace
from graphstore.errors import InputError
from graphstore.filter import parse_filter
from graphstore.model import Guilt, Method, Role, Verdict


@pytest.fixture(scope="module")
def store(network_store, network_run):
    network_run("left", fault="w_left")
    network_run("fine")
    network_run("stem", fault="w_stem")
    network_run("holes", fault="w_left", missing=["left", "right", "join", "scale"])
    return network_store


def test_the_guilty_op_is_named_with_its_numbers(store):
    answer = origins(store, "left")
    (one,) = answer.origins
    assert (one.origin.op, one.guilt) == ("left", Guilt.GUILTY)
    assert one.split.introduced == pytest.approx(0.3, rel=0.01)
    assert one.split.propagated < 1e-6
    assert one.sentence.startswith("left introduces ")
    assert "arithmetic explains" in one.sentence
    assert answer.run.method is Method.ROOT_CAUSE
    assert (answer.run.analysis.suspect, answer.run.analysis.guilty) == (6, 10)


def test_a_run_without_fault_has_no_origin(store):
    answer = origins(store, "fine")
    assert (answer.origins, answer.suspects) == ((), ())
    assert answer.run.verdict in (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)


def test_sides_that_were_fed_differently_blame_no_op(store, network_run):
    network_run("other", seed=6)
    answer = origins(store, "other")
    assert answer.origins == ()
    (mismatch,) = answer.run.analysis.mismatches
    assert mismatch.error > 0.5
    assert {row.split.role for row in role_table(store, "other").ops} <= {
        Role.CARRIES,
        Role.AMPLIFIES,
        Role.ATTENUATES,
    }
    assert trace(store, "other", "act").over == 8


def test_holes_in_the_dump_leave_a_group_and_a_next_dump(store):
    (one,) = origins(store, "holes").origins
    assert one.origin.op == "shift"
    assert set(one.group) == {"left", "right", "join", "scale", "shift"}
    assert one.group_sentence.startswith("1 of these 5 ops: ")
    assert one.sentence.startswith("one of the 5 ops that end in shift introduces ")
    # after join: left, right or join; else scale or shift
    assert (one.next_dump.op, one.next_dump.before, one.next_dump.after) == ("join", 3, 2)


def test_roles_are_counted_and_filtered(store):
    table = role_table(store, "left")
    by_op = {row.op: row.split.role for row in table.ops}
    assert by_op["left"] is Role.INTRODUCES
    assert by_op["stem"] is Role.CLEAN
    assert by_op["scale"] is Role.CARRIES
    assert table.counts.guilt[Guilt.GUILTY] == 1
    assert sum(table.counts.roles.values()) == len(table.ops) == 9
    listed = {row.id: row.split for row in op_rows(store, "left") if row.split is not None}
    numbers = {row.op: replace(row.split, group=(), reference="") for row in table.ops}
    assert numbers == listed
    some = role_table(store, "left", parse_filter("role=introduces|attenuates"))
    assert "left" in [row.op for row in some.ops]
    assert some.counts == table.counts
    assert role_table(store, "left", order="suspicion").ops[0].op == "left"


def test_the_way_of_an_error_from_its_origin_to_the_output(store):
    found = trace(store, "left")
    assert found.op == "left"
    (path,) = found.paths
    assert [step.row.id for step in path.steps] == ["left", "join", "scale", "shift", "squash", "y"]
    assert path.to == "y"
    assert [cut.op for cut in path.cuts] == ["join", "scale", "shift", "squash"]
    assert [(cut.above, cut.below) for cut in path.cuts] == [(1, 4), (2, 3), (3, 2), (4, 1)]
    assert path.middle.op == "scale"
    join = path.steps[1]
    assert join.diluted == (join.row.gain < 0.67)
    assert join.joins == ()


def test_ways_that_join_again(store):
    """From act the error would take both branches."""
    found = trace(store, "left", "act", to="scale")
    (path,) = found.paths
    assert found.outputs == ("scale",)
    assert {step.row.id for step in found.steps} == {"act", "left", "right", "join", "scale"}
    assert [step.row.id for step in path.steps] == ["act", "left", "join", "scale"]
    assert path.steps[2].joins == (), "right brings no error"
    assert [cut.op for cut in path.cuts] == ["join"]


def test_a_join_names_the_other_branch_that_brings_the_error(store):
    (path,) = trace(store, "stem").paths
    passed = [step.row.id for step in path.steps]
    assert passed[:2] == ["stem", "act"]
    other = {"left", "right"} - set(passed)
    join = next(step for step in path.steps if step.row.id == "join")
    assert set(join.joins) == other
    assert [cut.op for cut in path.cuts] == ["act", "join", "scale", "shift", "squash"]


def test_what_cannot_be_traced_is_said(store):
    with pytest.raises(InputError, match="no path leads from y to stem"):
        trace(store, "left", "y", to="stem")
    with pytest.raises(InputError, match="no origin to start from"):
        trace(store, "fine")


def test_a_networkx_graph_has_the_roles(store):
    graph = divergraph.to_networkx(store, "left")
    assert graph.nodes["left"]["role"] == "introduces"
    assert graph.nodes["left"]["guilt"] == "guilty"
    assert graph.nodes["left"]["introduced"] == pytest.approx(0.3, rel=0.01)
    assert "amplification" not in graph.nodes["stem"]


def test_residual_branches_fold_and_dilution_is_not_blamed_on_constants(store):
    """squash shrinks nothing here; shift adds a constant bias: no input without error."""
    (path,) = trace(store, "stem").paths
    assert not any(step.diluted for step in path.steps if step.row.id != "join")
    numbers = [number for number, _ in folded(path.steps)]
    assert numbers[0] == 0
    assert sum(len(steps) for _, steps in folded(path.steps)) == len(path.steps)
