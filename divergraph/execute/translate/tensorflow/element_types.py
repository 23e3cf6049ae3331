"""Element types as attributes of TensorFlow's ops name them."""

from __future__ import annotations

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from graphstore.model import DType


def numpy_type(name: str) -> np.dtype:
    """The numpy type of an element type as attributes name it.

    Raises:
        NotTranslatedError: it has none.
    """
    numpy = DType(name).numpy if name in set(DType) else None
    if numpy is None or numpy.kind == "c":
        raise NotTranslatedError(f"elements of type {name}")
    return numpy
