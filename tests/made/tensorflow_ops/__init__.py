"""Ways to make every op of TensorFlow that has a row: importing the modules fills the table."""

from __future__ import annotations

from tests.made.tensorflow_ops import (  # noqa: F401 - each puts its cases in
    arrays,
    batch_norm,
    boxes,
    choices,
    convolutions,
    diagonals,
    elementwise,
    indexing,
    losses,
    matrices,
    pooling,
    recurrent,
    reductions,
    resizing,
    segments,
    volumes,
)
from tests.made.tensorflow_ops.drawing import CASES

__all__ = ["BUILDS", "CASES"]

BUILDS = dict.fromkeys(CASES.values())
"""Each way to make ops once; some make ops of several types."""
