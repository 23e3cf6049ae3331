"""The table of TensorFlow's ops, which the modules beside this one fill."""

from __future__ import annotations

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError, OpRows
from graphstore.model import DType

ROWS = OpRows("tensorflow")

MATH = "tensorflow/core/ops/math_ops.cc"
ARRAY = "tensorflow/core/ops/array_ops.cc"
NN = "tensorflow/core/ops/nn_ops.cc"
TRAINING = "tensorflow/core/ops/training_ops.cc"
CONTROL = "tensorflow/core/ops/control_flow_ops.cc"
DATA_FLOW = "tensorflow/core/ops/data_flow_ops.cc"
LIST = "tensorflow/core/ops/list_ops.cc"
FUNCTIONS = "tensorflow/core/ops/functional_ops.cc"
STATE = "tensorflow/core/ops/state_ops.cc"
IMAGE = "tensorflow/core/ops/image_ops.cc"
SPARSE = "tensorflow/core/ops/sparse_ops.cc"
RECURRENT = "tensorflow/core/ops/rnn_ops.cc"
MANIP = "tensorflow/core/ops/manip_ops.cc"
"""Where TensorFlow declares and describes its ops; their kernels lie in ``core/kernels``."""


# Element types as attributes of TensorFlow's ops name them.


def numpy_type(name: str) -> np.dtype:
    """The numpy type of an element type as attributes name it.

    Raises:
        NotTranslatedError: it has none.
    """
    numpy = DType(name).numpy if name in set(DType) else None
    if numpy is None or numpy.kind == "c":
        raise NotTranslatedError(f"elements of type {name}")
    return numpy
