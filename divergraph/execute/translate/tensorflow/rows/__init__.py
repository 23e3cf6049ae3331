"""All rows of TensorFlow's ops: importing the modules fills the table."""

from __future__ import annotations

from divergraph.execute.translate.plugged import with_plugged
from divergraph.execute.translate.tensorflow.rows import (  # noqa: F401 - each puts its rows in
    arrays,
    boxes,
    control,
    convolutions,
    elementwise,
    indexing,
    lists,
    losses,
    matrices,
    optimisers,
    pooling,
    quantised,
    recurrent,
    resizing,
    segments,
)
from divergraph.execute.translate.tensorflow.rows.table import ROWS as _OWN

ROWS = with_plugged(_OWN)
