"""The types of arrays, by what their elements are known to be."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Bool: TypeAlias = NDArray[np.bool_]
Float32: TypeAlias = NDArray[np.float32]
Float64: TypeAlias = NDArray[np.float64]
Int64: TypeAlias = NDArray[np.int64]
