"""The table of Caffe's rows: what it covers, and what plug-ins add to it."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import numpy as np
import pytest

from divergraph.execute.translate import plugged
from divergraph.execute.translate.caffe.catalogue import ROWS
from divergraph.execute.translate.contract import OpRows
from divergraph.execute.translate.coverage import coverage
from graphstore.errors import ExecutionError
from importers.registry import read_graph

NET = """
layer { name: "a" type: "ReLU" bottom: "x" top: "a" }
layer { name: "b" type: "Doubled" bottom: "a" top: "b" }
layer { name: "c" type: "Doubled" bottom: "b" top: "c" }
"""
OWN = OpRows("caffe")


@OWN.row("Doubled", source="this test")
def _doubled(piece):
    return [piece.add("Add", piece.name(), piece.name())]


def add_own(rows):
    rows.entries.update(OWN.entries)


def test_each_row_says_where_its_layer_is_defined():
    assert len(ROWS.entries) >= 60
    assert all(len(entry.source) > 10 for entry in ROWS.entries.values())


def test_coverage_counts_ops_and_types(nets, rng):
    found = coverage(read_graph(nets.written(NET, {"x": rng(2, 3)})))
    assert (found.ops, found.translated, found.types, found.translated_types) == (3, 1, 2, 1)
    assert found.without == {"Doubled": 2}


@pytest.mark.parametrize("named", ["OWN", "add_own"])
def test_a_plug_in_adds_rows(nets, rng, monkeypatch, named):
    entry = EntryPoint("caffe", f"{__name__}:{named}", plugged.TRANSLATIONS)
    monkeypatch.setattr(EntryPoint, "load", lambda each: globals()[each.attr])
    monkeypatch.setattr(plugged, "entry_points", lambda group: [entry])
    made = nets.run(NET, {"x": rng(2, 3)})
    assert np.allclose(made["c"], 4 * np.maximum(rng(2, 3), 0))
    assert coverage(read_graph(nets.folder / "net.prototxt")).translated == 3


def test_models_that_run_as_they_are_have_no_coverage(make_model, relu_model):
    with pytest.raises(ExecutionError, match="not translated"):
        coverage(read_graph(relu_model))


@pytest.fixture
def relu_model(make_model):
    from onnx import helper

    return make_model(helper.make_node("Relu", ["x"], ["y"]), outputs=("y",))
