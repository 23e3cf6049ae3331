"""``verify`` on device runs made here of a compiled model: the faulty op and no other."""

from __future__ import annotations

import numpy as np
import pytest

import divergraph as dg
from divergraph.execute.translate.ge.fused import TAIL
from graphstore.model import Verdict
from importers.om.constants import weights
from importers.registry import read_graph
from tests.made.device_program import DeviceProgram, write_dump

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

CONV = "recognition/d_h2/Conv2D"
LEAKING = "".join(f"recognition/lrelu/{each}" for each in ("Abs", "mul", "mul_1", "add"))
TRANSPOSED = "generation/g_h1/conv2d_transposegeneration/Relu_1"


@pytest.fixture
def model(shared_data):
    return shared_data / "om" / "autoencoder_hh_om.om"


@pytest.fixture
def program(model):
    return DeviceProgram(read_graph(model), weights(model))


def _verified(program, model, folder, **wrong):
    write_dump(program.graph, program.run(**wrong), folder)
    return dg.verify(folder, om=model)


def test_a_healthy_run(program, model, tmp_path):
    found = _verified(program, model, tmp_path)
    assert (found.verdict, found.unjudged) == (Verdict.CLEAN, {})
    assert found.not_covered.keys() <= program.uncovered.keys()


def _lost_channel(value):
    value = value.copy()
    value[..., 3] = 0
    return value


@pytest.mark.parametrize(
    ("op", "fault"),
    [
        (CONV, _lost_channel),
        pytest.param(
            *("recognition/w_mean/MatMuladd", lambda value: value * 1.02),
            marks=pytest.mark.exhaustive,
        ),
        ("trans_TransData_17", lambda value: np.roll(value, 1, axis=0)),
        pytest.param("generation/output", lambda value: value + 0.1, marks=pytest.mark.exhaustive),
        (LEAKING, lambda value: np.where(value < np.median(value), 0.8 * value, value)),
    ],
)
def test_an_op_that_makes_something_else(program, model, tmp_path, op, fault):
    found = _verified(program, model, tmp_path, faults={op: fault})
    assert [each.op for each in (*found.wrong, *found.suspects)] == [op]


def test_an_op_that_forgets_what_it_was_fused_with(program, model, tmp_path):
    found = _verified(program, model, tmp_path, attrs={TRANSPOSED: {TAIL: ()}})
    assert [each.op for each in (*found.wrong, *found.suspects)] == [TRANSPOSED]
