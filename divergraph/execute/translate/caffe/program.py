"""A Caffe net as a program: what runs, what it is fed, its weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from divergraph.execute.translate.caffe.catalogue import ROWS
from divergraph.execute.translate.caffe.weights import CaffeWeights
from divergraph.execute.translate.plugged import with_plugged
from divergraph.execute.translate.program import Program
from graphstore.model import ModelGraph


def caffe_program(name: str, path: Path, graph: ModelGraph) -> Program:
    """The net *graph*, read from *path*, for the engine *name*. Layers that fetch data are
    inputs."""
    fed = {tensor.name for tensor in graph.inputs}
    phase = {"phase": graph.attrs.get("phase", "TEST")}
    ops = tuple(
        replace(op, attrs={**op.attrs, **phase})
        for op in graph.ops
        if not op.outputs or any(tensor.name not in fed for tensor in op.outputs)
    )
    weights = CaffeWeights(path, graph)
    return Program(name, with_plugged(ROWS), ops, graph.inputs, weights, {})
