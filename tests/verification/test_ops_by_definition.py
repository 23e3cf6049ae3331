"""Ops made by numpy, in float64, from the formulas of their definitions: all are right; with faults
put in, those and no others are wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from divergraph.execute.contract import RunnableSubgraph
from divergraph.execute.translate.ge.fused import FUSED
from divergraph.execute.translate.ge.table import ROWS
from divergraph.values.array_types import Array
from divergraph.verification.alone import LoneOps, chosen_readings, fed, graph_of, inputs_of, opened
from divergraph.verification.operands import DumpedOperands
from divergraph.verification.verify_dump import verify
from graphstore.model import Verdict
from tests.made.device_ops import DeviceOps, spoiled
from tests.verification.definitions import (
    elementwise,
    images,
    integers,
    movement,
    norms,
    reductions,
    training,
    windows,
)
from tests.verification.definitions.draws import Draws

pytestmark = pytest.mark.thorough

FAMILIES = {
    "elementwise": elementwise,
    "images": images,
    "integers": integers,
    "movement": movement,
    "norms": norms,
    "reductions": reductions,
    "training": training,
    "windows": windows,
}
READ_NOTHING = {"FillV2D"}
"""Ops without inputs: none of their outputs can be wrong by what they read."""
_CLOSE = 2e-5
_MEMORY = 1 << 28


def made_ops(folder, kind, *families) -> DeviceOps:
    """Every op of some families with its inputs and outputs, in blocks where the device has
    them."""
    draw, made = Draws(np.dtype(kind)), DeviceOps(folder)

    def stored(value):
        value = np.asarray(value)
        return value.astype(kind) if value.dtype == np.float64 else value

    def add(name, op, inputs, outputs, layouts=(), **attrs):
        blocked = "NC1HWC0" if layouts else "FRACTAL_NZ" if "MatMul" in op else ""
        values = [[stored(each) for each in side] for side in (inputs, outputs)]
        made.add(name, op, *values, layouts, blocked=blocked, **attrs)

    for family in families:
        for part in FAMILIES[family].PARTS:
            part(add, draw)
    return made


@pytest.fixture
def made(tmp_path, request):
    family, kind = request.param
    return made_ops(tmp_path, kind, family).operands()


each_family = pytest.mark.parametrize(
    "made",
    [(family, kind) for family in FAMILIES for kind in ("float16", "float32")],
    indirect=True,
    ids="-".join,
)


def test_every_op_with_a_row_is_here(tmp_path):
    ops = made_ops(tmp_path, "float32", *FAMILIES).ops
    # Kernels fused of elementwise ops are in test_readings.
    assert {op.type for op in ops} - {"Data"} == set(ROWS) - READ_NOTHING - {FUSED}


@pytest.mark.slow
@each_family
def test_what_is_made_by_the_definition_is_right(made):
    found = verify(made)
    assert dict(found.not_covered) == {}
    assert [(each.op, each.port) for each in (*found.wrong, *found.suspects)] == []
    assert found.verdict is Verdict.CLEAN


def _computed(operands: DumpedOperands) -> Iterator[tuple[str, Array, Array]]:
    """What the rows make of the inputs of each op, and what was dumped of it."""
    lone = LoneOps(operands)
    assert lone.left_out == {}
    ops = chosen_readings(operands.graph, lone.ops, _MEMORY).ops
    alone = graph_of(operands.graph, (each.op for each in ops.values()), inputs_of(ops.values()))
    pieces = [
        RunnableSubgraph(
            op, tuple(each.inputs), tuple(each.op.outputs[p].name for p in each.outputs)
        )
        for op, each in ops.items()
    ]
    executor = opened(alone)
    results = executor.run_subgraphs(pieces, lambda piece: fed(ops[piece.key]), memory=_MEMORY)
    for result in results:
        assert not result.failure, result.failure
        for port, value in zip(ops[result.key].outputs, result.values.values(), strict=True):
            yield f"{result.key}:{port}", value, ops[result.key].outputs[port].read()
    executor.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_give_the_digits_of_the_formulas(family, tmp_path):
    """Nothing a device's arithmetic may excuse hides a difference here."""
    far = {}
    for name, value, expected in _computed(made_ops(tmp_path, "float32", family).operands()):
        assert value.shape == expected.shape, name
        both = [np.nan_to_num(each.astype(np.float64)) for each in (value, expected)]
        apart, scale = np.abs(both[0] - both[1]).max(), np.abs(both[1]).max()
        if apart > _CLOSE * max(scale, 1e-3):
            far[name] = apart / max(scale, 1e-3)
    assert far == {}


def _one_channel(value):
    value[:, 0, ..., 1] += value.dtype.type(0.5)


def _upside_down(value):
    value[...] = value[::-1].copy()


def _a_per_cent(value):
    value *= value.dtype.type(1.02)


FAULTS = {
    "conv": _one_channel,
    "softmax": _upside_down,
    "matmul": _a_per_cent,
    "layer": _a_per_cent,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_what_no_definition_makes_is_wrong_and_nothing_else(kind, tmp_path):
    operands = made_ops(tmp_path, kind, "windows", "reductions", "norms").operands()
    spoiled(operands, FAULTS)
    found = verify(operands)
    assert {each.op for each in found.wrong} == set(FAULTS)
    assert found.suspects == ()
    assert found.verdict is Verdict.DIVERGED
