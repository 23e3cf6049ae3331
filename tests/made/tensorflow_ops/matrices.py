"""Ops with matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import SIZES, Draw, case, numbers, seed_of


@case("MatMul")
def _mat_mul(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    m, k, n = (draw(SIZES) for _ in range(3))
    first, second = draw(st.booleans()), draw(st.booleans())
    a = feed(numbers((k, m) if first else (m, k), seed_of(draw)))
    b = feed(numbers((n, k) if second else (k, n), seed_of(draw)))
    return ops.MatMul(a=a, b=b, transpose_a=first, transpose_b=second)


@case("BatchMatMulV2", "Einsum")
def _batch(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    m, k, n, many = (draw(SIZES) for _ in range(4))
    first, second = draw(st.booleans()), draw(st.booleans())
    x = feed(numbers((many, k, m) if first else (many, m, k), seed_of(draw)))
    y = feed(numbers((1, n, k) if second else (1, k, n), seed_of(draw)))
    found = [ops.BatchMatMulV2(x=x, y=y, adj_x=first, adj_y=second)]
    if not first and not second:
        found.append(ops.Einsum(inputs=[x, ops.Squeeze(input=y, axis=[0])], equation="bik,kj->bij"))
    return found


def _determinants(ops: Any, matrix: Any, kind: str) -> list[Any]:
    """ONNX Runtime has them in single precision alone."""
    if kind == "f8":
        return []
    return [ops.MatrixDeterminant(input=matrix), *ops.LogMatrixDeterminant(input=matrix)]


@case(
    *("MatrixInverse", "MatrixSolve", "MatrixTriangularSolve", "Cholesky"),
    *("MatrixDeterminant", "LogMatrixDeterminant"),
)
def _solved(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    many, size, columns = (draw(SIZES) for _ in range(3))
    kind = draw(st.sampled_from(["f4", "f8"]))
    x = numbers((many, size, size), seed_of(draw), kind)
    x = x + (4 + size) * np.eye(size, dtype=kind)  # far from a singular one
    matrix, right = feed(x), feed(numbers((many, size, columns), seed_of(draw), kind))
    adjoint = draw(st.booleans())
    return [
        ops.MatrixInverse(input=matrix, adjoint=adjoint),
        ops.MatrixSolve(matrix=matrix, rhs=right, adjoint=adjoint),
        ops.MatrixTriangularSolve(
            matrix=matrix, rhs=right, lower=draw(st.booleans()), adjoint=adjoint
        ),
        ops.Cholesky(input=feed(x @ x.transpose(0, 2, 1))),
        *_determinants(ops, matrix, kind),
    ]
