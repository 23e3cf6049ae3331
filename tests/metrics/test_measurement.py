"""What a worker or a journal gives back is what was measured, bit for bit."""

from __future__ import annotations

import json
import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from divergraph.metrics.pairs.measurement import Measurement, measurement_json, measurement_value
from divergraph.metrics.pairs.tensor_pairs import measured_pair
from divergraph.values.tensor_pair import TensorPair
from graphstore.model import DType, Reason
from importers.dumps.bare.index import find_tensors

ARRAYS = hnp.arrays(
    st.sampled_from([np.float16, np.float32, np.float64, np.int64, np.bool_]),
    hnp.array_shapes(max_dims=3, max_side=4),
)


def same(first: Measurement, second: Measurement) -> bool:
    """NaN is not equal to itself, its text is."""
    return repr(first) == repr(second)


@given(ARRAYS, st.integers(0, 3))
def test_any_measurement_comes_back(tmp_path_factory, golden, shift):
    folder = tmp_path_factory.mktemp("pair")
    np.save(folder / "golden.npy", golden)
    np.save(folder / "device.npy", np.roll(golden, shift).astype(golden.dtype))
    pair = TensorPair(*(find_tensors(folder / f"{side}.npy").tensors[0].ref for side in SIDES))
    found = measured_pair(pair)
    assert found.metrics is not None
    assert same(measurement_value(json.loads(json.dumps(measurement_json(found)))), found)
    assert same(pickle.loads(pickle.dumps(found)), found)


SIDES = ("device", "golden")


def test_a_reason_comes_back():
    found = Measurement(
        reason=Reason.SHAPE_MISMATCH, detail="[2] is no [3]", device_dtype=DType.BFLOAT16
    )
    assert measurement_value(json.loads(json.dumps(measurement_json(found)))) == found
    assert pickle.loads(pickle.dumps(found)) == found
