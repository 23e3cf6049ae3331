"""``divergraph diff RUN OP``: an op's outputs element by element, as two files are compared."""

from __future__ import annotations

import pytest
from valued_run import kept_values


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return kept_values(tmp_path_factory.mktemp("values"))


def test_the_elements_of_both_sides_are_compared(divergraph, store):
    at = ("--store", store)
    done = divergraph("diff", "values", "relu", "-al", 0.001, "-p", 3, *at)
    assert done.code == 1
    assert done.out.startswith("relu.0: fail")
    assert "first bad elements" in done.out
    found = divergraph("diff", "values", "relu", *at, "--json").json
    worst = divergraph("tensor", "values", "relu", *at, "--json").json["worst"][0]
    assert found["elements"]["worst_absolute"][0]["index"] == worst["index"]


@pytest.mark.parametrize(
    ("run", "op", "said"), [("values", "rely", "rely"), ("nobody", "relu", "no such file")]
)
def test_what_is_not_there_is_said(divergraph, store, run, op, said):
    done = divergraph("diff", run, op, "--store", store)
    assert (done.code, said in done.err) == (2, True)
