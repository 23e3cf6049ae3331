"""Cells of recurrent nets. Behind the longest sequence TensorFlow leaves most outputs unfilled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import SIZES, Draw, case, numbers, seed_of


@case(
    *("LSTMBlockCell", "BlockLSTM", "BlockLSTMV2"),
    *("LSTMBlockCellGrad", "BlockLSTMGrad", "BlockLSTMGradV2"),
)
def _lstm(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    batch, inner, units, turns = (draw(SIZES) for _ in range(4))
    said = {"use_peephole": draw(st.booleans()), "cell_clip": draw(st.sampled_from([0.5, 3.0]))}
    x = numbers((turns, batch, inner), seed_of(draw))
    rest = {
        "cs_prev": feed(numbers((batch, units), seed_of(draw))),
        "h_prev": feed(numbers((batch, units), seed_of(draw))),
        "w": feed(numbers((inner + units, 4 * units), seed_of(draw))),
        **{name: feed(numbers((units,), seed_of(draw))) for name in ("wci", "wcf", "wco")},
        "b": feed(numbers((4 * units,), seed_of(draw))),
    }
    whole = {"x": feed(x), "seq_len_max": np.int64(turns)}
    cell = ops.LSTMBlockCell(x=feed(x[0]), **rest, **said, forget_bias=0.5)
    older = ops.BlockLSTM(**whole, **rest, **said, forget_bias=0.5)
    newer = ops.BlockLSTMV2(**whole, **rest, **said)
    sees = {"use_peephole": said["use_peephole"]}
    back = {
        "cs_grad": feed(numbers((turns, batch, units), seed_of(draw))),
        "h_grad": feed(numbers((turns, batch, units), seed_of(draw))),
        **sees,
    }
    in_turn = {
        "cs_grad": feed(numbers((batch, units), seed_of(draw))),
        "h_grad": feed(numbers((batch, units), seed_of(draw))),
        **sees,
    }
    kept = ("i", "cs", "f", "o", "ci", "co")
    return [
        *ops.LSTMBlockCellGrad(
            x=feed(x[0]), **rest, **{name: getattr(cell, name) for name in kept}, **in_turn
        ),
        *ops.BlockLSTMGrad(**whole, **rest, **older._asdict(), **back),
        *ops.BlockLSTMGradV2(**whole, **rest, **newer._asdict(), **back),
    ]


@case("GRUBlockCell", "GRUBlockCellGrad")
def _gru(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    batch, inner, units = (draw(SIZES) for _ in range(3))
    given = {
        "x": feed(numbers((batch, inner), seed_of(draw))),
        "h_prev": feed(numbers((batch, units), seed_of(draw))),
        "w_ru": feed(numbers((inner + units, 2 * units), seed_of(draw))),
        "w_c": feed(numbers((inner + units, units), seed_of(draw))),
        "b_ru": feed(numbers((2 * units,), seed_of(draw))),
        "b_c": feed(numbers((units,), seed_of(draw))),
    }
    made = ops.GRUBlockCell(**given)
    gradient = feed(numbers((batch, units), seed_of(draw)))
    gates = {"r": made.r, "u": made.u, "c": made.c}
    return [*made, *ops.GRUBlockCellGrad(**given, **gates, d_h=gradient)]
