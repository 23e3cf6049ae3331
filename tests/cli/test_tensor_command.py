"""``divergraph tensor``: one tensor of both sides, how it differs and where."""

import numpy as np
import pytest
from valued_run import SHAPE, kept_values


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return kept_values(tmp_path_factory.mktemp("values"))


def test_the_errors_are_told_by_size_and_by_place(divergraph, store):
    printed = divergraph("tensor", "values", "relu", "--store", store, "--json").json
    assert (printed["op"], printed["output"], printed["input"]) == ("relu", 0, None)
    assert printed["shape"] == list(SHAPE)
    assert printed["is_apart"]
    first = printed["by_axis"][0]
    assert first["axis"] == 1
    assert int(np.argmax(first["means"])) == 4
    assert sum(printed["histogram"]["decades"].values()) + printed["histogram"]["equal"] == 768
    worst = printed["worst"]
    assert len(worst) == 10
    assert all(each["index"][1] == 4 for each in worst)


def test_the_text_says_the_same(divergraph, store):
    done = divergraph("tensor", "values", "relu", "--top", 3, "--store", store)
    assert done.code == 0
    assert "two kinds of errors, with a gap between: a fault in a part, no drift" in done.out
    assert "mean |device - golden| along axis 1" in done.out
    assert done.out.count("[0,4,") + done.out.count("[1,4,") == 3


def test_a_value_that_is_no_number_is_null_in_json_and_named_in_text(divergraph, store):
    printed = divergraph("tensor", "values", "tanh", "--store", store, "--json").json
    assert printed["histogram"]["nonfinite"] == 1
    assert any(None in axis["means"] for axis in printed["by_axis"])
    assert "Inf" in divergraph("tensor", "values", "tanh", "--store", store).out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("values", "rely"), "rely"),
        (("value", "relu"), "value"),
        (("values", "relu", "--output", 7), "output 7 was not compared"),
        (("values", "relu", "--output", 0, "--input", 0), "not both"),
    ],
)
def test_what_is_not_there_is_said(divergraph, store, arguments, said):
    done = divergraph("tensor", *arguments, "--store", store)
    assert done.code == 2
    assert said in done.err
