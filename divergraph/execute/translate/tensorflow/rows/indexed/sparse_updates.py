"""What a step does to some rows of variables: those its gradient has, one after the other.

Source: core/kernels/training_ops.cc; each row changes as the variable whole would by the op of the
same name without "Sparse".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from divergraph.execute.translate.contract import Row
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.optimisers import (
    adadelta,
    adagrad,
    centred_rms_prop,
    ftrl,
    keras_momentum,
    momentum,
    proximal_adagrad,
    proximal_descent,
    rms_prop,
)
from divergraph.execute.translate.tensorflow.rows.table import ROWS, TRAINING


class _Rows:
    """A piece whose variables are only their rows that are listed."""

    def __init__(self, piece: Piece, states: int, indices: int) -> None:
        self._piece = piece
        self.op = piece.op
        chosen = [piece.add("Gather", piece.name(at), piece.name(indices)) for at in range(states)]
        others = [piece.names[at] for at in range(states, len(piece)) if at != indices]
        self.names = (*chosen, *others)

    def __len__(self) -> int:
        return len(self.names)

    def name(self, at: int = 0) -> str:
        return self.names[at]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._piece, name)


def _sparse(dense: Row, states: int, indices: int) -> Row:
    """The op that changes the rows *indices* says, of *states* variables, as *dense* does."""

    def row(p: Piece) -> Sequence[str]:
        (updated,) = dense(_Rows(p, states, indices))  # type: ignore[arg-type]
        assert updated is not None
        places = p.reshape(p.cast(p.name(indices), np.int64), (*p.shape(indices), 1))
        return [p.add("ScatterND", p.name(0), places, updated)]

    return row


_KINDS: Mapping[str, tuple[Row, int, int]] = {
    "Adadelta": (adadelta, 3, 7),
    "Adagrad": (adagrad, 2, 4),
    "AdagradV2": (adagrad, 2, 5),
    "Momentum": (momentum, 2, 4),
    "RMSProp": (rms_prop, 3, 8),
    "CenteredRMSProp": (centred_rms_prop, 4, 9),
    "Ftrl": (ftrl, 3, 4),
    "FtrlV2": (ftrl, 3, 4),
    "ProximalAdagrad": (proximal_adagrad, 2, 6),
    "ProximalGradientDescent": (proximal_descent, 1, 5),
}
"""How the variable changes, how many variables there are, and which input lists their rows."""

for _kind, (_dense, _states, _indices) in _KINDS.items():
    _types = (f"SparseApply{_kind}", f"ResourceSparseApply{_kind}")
    ROWS.row(*_types, source=TRAINING)(_sparse(_dense, _states, _indices))
ROWS.row("ResourceSparseApplyKerasMomentum", source=TRAINING)(_sparse(keras_momentum, 2, 4))
