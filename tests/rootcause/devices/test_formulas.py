"""Devices that compute a function by a formula that is nearly it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.devices.formulas import (
    FORMULAS,
    GELU_BY_SIGMOID,
    GELU_BY_TANH,
    Approximation,
    Formula,
)
from graphstore.contract import RunData

Array = np.ndarray[Any, Any]
erf = np.vectorize(math.erf)
LAYERS = 4
RNG = np.random.default_rng(6)
X = RNG.normal(0, 1.5, (16, 32)).astype(np.float32)
W = [(RNG.standard_normal((32, 32)) / 4).astype(np.float32) for _ in range(LAYERS)]


def layers() -> list[onnx.NodeProto]:
    """Products, each with a Gelu of five ops."""
    nodes = []
    for n in range(LAYERS):
        steps = [
            ("MatMul", [f"g{n - 1}" if n else "x", f"w{n}"], f"m{n}"),
            ("Div", [f"m{n}", "root"], f"d{n}"),
            ("Erf", [f"d{n}"], f"e{n}"),
            ("Add", [f"e{n}", "one"], f"a{n}"),
            ("Mul", [f"m{n}", f"a{n}"], f"b{n}"),
            ("Mul", [f"b{n}", "half"], f"g{n}"),
        ]
        nodes += [helper.make_node(kind, read, [made], made) for kind, read, made in steps]
    return nodes


def compared(
    folder: Path, formula: Formula, *, only: int | None = None, unfused: int | None = None
) -> RunData:
    """A device that dumps products and Gelus, all of which (or *only* one) are by *formula*; that
    with number *unfused* is computed op by op, and its last factor is wrong."""
    graph = helper.make_graph(
        layers(),
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info(f"g{LAYERS - 1}", TensorProto.FLOAT, None)],
        [
            *(numpy_helper.from_array(w, f"w{n}") for n, w in enumerate(W)),
            *(
                numpy_helper.from_array(np.float32(value), name)
                for name, value in {"root": 2**0.5, "one": 1, "half": 0.5}.items()
            ),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "net.onnx"
    onnx.save_model(model, str(path))
    np.save(folder / "x.npy", X)
    for side in ("golden", "device"):
        capture(CaptureRequest(path, folder / side, {"x": folder / "x.npy"}))
    last = X
    for each in (folder / "device").glob("[deab][0-9].*"):
        if int(each.name[1]) != unfused:
            each.unlink()
    for n, w in enumerate(W):
        last = last @ w
        np.save(next((folder / "device").glob(f"m{n}.*")), last)
        if n == unfused:
            steps = {"d": last / np.float32(2**0.5)}
            steps["e"] = erf(steps["d"])
            steps["a"] = steps["e"] + 1
            steps["b"] = last * steps["a"]
            for name, value in steps.items():
                dump = next((folder / "device").glob(f"{name}{n}.*"))
                np.save(dump, np.asarray(value, np.float32))
            last = (steps["b"] * 0.7).astype(np.float32)
        else:
            last = formula(last) if only in (None, n) else exact_gelu(last)
        np.save(next((folder / "device").glob(f"g{n}.*")), last)
    return compare(CompareRequest(path, folder / "golden", path, folder / "device"))


def exact_gelu(x: Array) -> Array:
    return (x * 0.5 * (1 + erf(x / 2**0.5))).astype(np.float32)


@pytest.mark.parametrize("formula", [GELU_BY_TANH, GELU_BY_SIGMOID], ids=lambda each: each.name)
def test_a_gelu_that_all_ops_compute_by_a_formula_is_no_fault(
    tmp_path: Path, formula: Formula
) -> None:
    found = compared(tmp_path, formula)
    assert not found.origins
    assert not found.suspects
    assert found.run.analysis.arithmetic.functions == {"Erf": formula.off}
    assert any(f"Erf (by {formula.name}) is approximated" in each for each in found.run.warnings)


def test_one_that_does_where_the_others_do_not_is(tmp_path: Path) -> None:
    found = compared(tmp_path, GELU_BY_TANH, only=2)
    assert [each.op for each in found.origins] == ["g2"]
    assert not found.run.analysis.arithmetic.functions


def test_where_one_is_computed_op_by_op_the_others_still_are_by_a_formula(tmp_path: Path) -> None:
    found = compared(tmp_path, GELU_BY_TANH, unfused=2)
    assert [each.op for each in found.origins] == ["g2"]
    assert found.run.analysis.arithmetic.functions == {"fused Erf": GELU_BY_TANH.off}


@pytest.mark.parametrize("kind", FORMULAS)
def test_formulas_are_off_by_what_they_say(kind: str) -> None:
    x = np.linspace(-8, 8, 20_001)
    exact = x * 0.5 * (1 + erf(x / 2**0.5)) if kind == "Gelu" else erf(x)
    for formula in FORMULAS[kind]:
        off = np.max(np.abs(formula(x) - exact) / np.maximum(1, np.abs(exact)))
        assert 0.4 * formula.off < off <= 1.3 * formula.off


def test_what_a_run_keeps_of_an_approximation_is_enough_to_make_it_again() -> None:
    assert Approximation.told("Erf", FORMULAS["Erf"][0].off).formula is FORMULAS["Erf"][0]
    assert Approximation.told("Exp", 4e-6) == Approximation(4e-6)
