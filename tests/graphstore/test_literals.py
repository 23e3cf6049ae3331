"""Numbers written into the queries of the embedded store."""

from __future__ import annotations

from graphstore.embedded.database import with_numbers


def test_whole_numbers_are_written_and_the_rest_stays_a_parameter() -> None:
    text = "MATCH (o) WHERE o.id = $op AND o.a < $op_end AND o.b = $flag AND o.c = $name"
    params = {"op": 2**40, "op_end": 7, "flag": True, "name": "$op"}
    written, others = with_numbers(text, params)
    assert written == (
        f"MATCH (o) WHERE o.id = {2**40} AND o.a < 7 AND o.b = $flag AND o.c = $name"
    )
    assert others == {"flag": True, "name": "$op"}


def test_numbers_the_engine_does_not_hold_are_left_to_it() -> None:
    written, others = with_numbers("RETURN $wide, $below", {"wide": 2**63, "below": -1})
    assert written == "RETURN $wide, $below"
    assert others == {"wide": 2**63, "below": -1}


def test_a_list_of_numbers_gets_bounds_by_which_blocks_are_skipped() -> None:
    params = {"ids": [9, 4, 7], "names": ["a"], "none": []}
    written, others = with_numbers("WHERE o.id IN $ids OR o.n IN $names OR o.b IN $none", params)
    assert written == (
        "WHERE o.id >= 4 AND o.id <= 9 AND o.id IN $ids OR o.n IN $names "
        "OR o.b >= 0 AND o.b <= 0 AND o.b IN $none"
    )
    assert others == params
