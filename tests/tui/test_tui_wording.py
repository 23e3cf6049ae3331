"""Words for every value, and numbers that do not mislead."""

import math

import pytest

from divergraph.text.words import REASON_WORDS, RULE_WORDS, shape_text
from graphstore.model import LineageRule, OpState, Reason
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import ASCII, UNICODE


@pytest.mark.parametrize(
    ("table", "values"),
    [
        (REASON_WORDS, Reason),
        (wording.REASON_SHORT, Reason),
        (RULE_WORDS, LineageRule),
        (theme.STATE_STYLES, OpState),
    ],
)
def test_every_value_has_its_word(table, values):
    assert set(table) == set(values)


def test_short_reasons_fit_their_column():
    assert max(map(len, wording.REASON_SHORT.values())) <= 11


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0, "1.00000"),
        (0.9999999, "0.99999"),
        (0.9964, "0.99640"),
        (-0.5, "-0.50000"),
        (math.nan, "NaN"),
        (-math.inf, "-Inf"),
        (None, "-"),
    ],
)
def test_a_cosine_below_one_never_reads_as_one(value, shown):
    assert wording.cosine(value, ASCII) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (37.21, "x37.2"),
        (999.0, "x999.0"),
        (1004.3, "x1004"),
        (99999.4, "x99999"),
        (123456.0, "x1e+05"),
        (math.inf, "xInf"),
        (None, "-"),
    ],
)
def test_a_gain_keeps_to_its_column(value, shown):
    assert wording.gain(value, ASCII) == shown


@pytest.mark.parametrize(
    ("dtype", "shown"),
    [("float16", "fp16"), ("bfloat16", "bf16"), ("float8_e5m2", "float8_e5m2"), ("", "?")],
)
def test_element_types_are_short_where_that_is_common(dtype, shown):
    assert wording.dtype_text(dtype) == shown


@pytest.mark.parametrize(
    ("shape", "shown"), [((1, None, 64), "1,?,64"), ((), "scalar"), (None, "?"), ((0,), "0")]
)
def test_shapes_say_what_is_not_known(shape, shown):
    assert shape_text(shape) == shown


def test_small_errors_are_short():
    assert [wording.small(value, UNICODE) for value in (0.0, 0.0312, math.nan)] == [
        "0",
        "3.1e-02",
        "NaN",
    ]
