"""Growing a part upstream to where the least data go in."""

from __future__ import annotations

from divergraph.submodel.select import Selector
from divergraph.submodel.selection import SelectionRequest, TensorFacts
from divergraph.submodel.smallest_boundary import smallest_boundary
from graphstore.model import DType, TensorRef

SIZES = {"x": 10, "a": 10, "b": 1000, "c": 1000, "d": 1000}


def facts(key):
    name = key.op if isinstance(key, TensorRef) else key
    return TensorFacts(DType.FLOAT32, (SIZES[name],), dumped=True)


def test_two_large_branches_of_one_small_tensor(graph_of):
    selector = Selector(graph_of("a = Relu x\nb = Tile a\nc = Tile a\nd = Add b c"), facts)
    part = selector.between(["d"], ["d"])
    better = smallest_boundary(selector, part, SelectionRequest())
    assert better is not None
    assert (better.before, better.after) == (8000, 40)
    assert set(better.selection.chosen) >= {"b", "c", "d"}


def test_nothing_better_upstream(graph_of):
    selector = Selector(graph_of("b = Tile x\na = Relu b\nd = Add a x"), facts)
    part = selector.between(["d"], ["d"])
    better = smallest_boundary(selector, part, SelectionRequest())
    # a and x go in: 80 bytes; all of it is made of x alone: 40
    assert better is not None
    assert (better.before, better.after) == (80, 40)
    assert smallest_boundary(selector, better.selection, SelectionRequest()) is None
