"""Documents are written as Python's own encoder writes them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergraph.present.declared_answer import answer_parts
from divergraph.present.json_text import json_text

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=30)
@given(st.dictionaries(st.text(), VALUES))
def test_the_text_is_that_of_python_s_encoder(shape):
    assert json_text(shape) == json.dumps(shape, indent=2, ensure_ascii=False, allow_nan=False)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_json_has_not_are_refused(number):
    with pytest.raises(ValueError, match="no number in JSON"):
        json_text({"a": [number]})


def test_rows_that_name_their_parents_are_a_tree() -> None:
    probes = [{"number": n, "parent": parent} for n, parent in ((1, None), (2, None), (3, 1))]
    (table,) = answer_parts({"probes": probes})
    assert [row[0] for row in table.rows] == ["1", "3", "2"]
    assert table.depths == (0, 1, 0)
