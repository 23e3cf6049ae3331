"""Steps that ``divergraph.torch`` recorded, read and judged where PyTorch is not installed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import divergraph as dg
from graphstore.model import Verdict
from importers.registry import read_graph

DATA = Path(__file__).parents[1] / "data/torch"


def test_the_call_at_fault_is_named_with_its_argument():
    run = dg.compare(DATA / "golden", None, DATA / "faulty", None)
    assert run.verdict is Verdict.DIVERGED
    (origin,) = run.data.origins
    assert origin.op.endswith("Functional.layer_norm.0.forward")
    assert origin.cause == "eps 0.1, golden 1e-05"


def test_views_casts_and_own_gradients_are_run_again():
    run = dg.compare(DATA / "golden", None, DATA / "faulty", None)
    (line,) = [each for each in run.data.run.warnings if "were run again" in each]
    assert line.startswith("26 of 27 calls were run again; 1 not: 1 float.backward")


def test_inputs_have_the_sources_that_were_recorded():
    graph = read_graph(DATA / "golden")
    ops = {op.name: op for op in graph.ops}
    chain = ["Functional.gelu", "Functional.layer_norm", "Functional.linear"]
    for reader, maker in pairwise(chain):
        assert ops[f"{reader}.0.forward"].inputs[0].producer.op == ops[f"{maker}.0.forward"].id
    linear = ops["Functional.linear.0.forward"]
    assert linear.inputs[1].tensor == "Module.0.Linear.forward.0.parameters.weight"
