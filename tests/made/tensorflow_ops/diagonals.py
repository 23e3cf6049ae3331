"""Ops of diagonals and bands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import Draw, case, numbers, seed_of, shape_of


@case("MatrixDiagPart", "MatrixDiagPartV3", "MatrixDiag", "MatrixDiagV3", "MatrixSetDiag")
def _diagonals(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 2, 4)
    image = numbers(shape, seed_of(draw))
    x = feed(image)
    number = draw(st.integers(1 - shape[-2], shape[-1] - 1))
    line = np.diagonal(image, number, -2, -1)
    k, padding = np.int32(number), np.float32(2.5)
    diagonal, main = feed(line), feed(np.diagonal(image, 0, -2, -1) + 1)
    found = [ops.MatrixDiagPart(input=x), ops.MatrixDiag(diagonal=main)]
    found.append(ops.MatrixSetDiag(input=x, diagonal=main))
    for version in ("V2", "V3"):
        found += [
            getattr(ops, f"MatrixDiagPart{version}")(input=x, k=k, padding_value=padding),
            getattr(ops, f"MatrixSetDiag{version}")(input=x, diagonal=diagonal, k=k),
            getattr(ops, f"MatrixDiag{version}")(
                diagonal=diagonal,
                k=k,
                num_rows=np.int32(draw(st.sampled_from([-1, shape[-2]]))),
                num_cols=np.int32(draw(st.sampled_from([-1, shape[-1]]))),
                padding_value=padding,
            ),
        ]
    return found


@case("MatrixBandPart", "Diag", "DiagPart")
def _bands(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 2, 3)
    below, above = draw(st.integers(-1, shape[-2] - 1)), draw(st.integers(-1, shape[-1] - 1))
    small = feed(numbers(shape_of(draw, 1, 2), seed_of(draw)))
    spread = ops.Diag(diagonal=small)
    return [
        ops.MatrixBandPart(
            input=feed(numbers(shape, seed_of(draw))),
            num_lower=np.int32(below),
            num_upper=np.int32(above),
        ),
        spread,
        ops.DiagPart(input=spread),
    ]
