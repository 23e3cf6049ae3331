"""All rows of TensorFlow's ops: importing the modules fills the table."""

from __future__ import annotations

from divergraph.execute.translate.plugged import with_plugged
from divergraph.execute.translate.tensorflow.rows import (  # noqa: F401 - each puts its rows in
    arrays,
    batch_norm,
    boxes,
    choices,
    control,
    convolutions,
    elementwise,
    gradients,
    linear_algebra,
    lists,
    losses,
    matrices,
    optimisers,
    pooling,
    quantised,
    reductions,
    resizing,
)
from divergraph.execute.translate.tensorflow.rows.indexed import (  # noqa: F401 - these, too
    diagonals,
    indexing,
    segments,
    sparse_updates,
)
from divergraph.execute.translate.tensorflow.rows.recurrent import (  # noqa: F401 - and these
    cells,
)
from divergraph.execute.translate.tensorflow.rows.recurrent import (  # noqa: F401
    gradients as recurrent_gradients,
)
from divergraph.execute.translate.tensorflow.rows.table import ROWS as _OWN

ROWS = with_plugged(_OWN)
