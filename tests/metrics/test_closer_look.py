"""What a closer look adds to the figures of a pair over a limit."""

from __future__ import annotations

import numpy as np

from divergraph.metrics.pairs.detailed_metrics import detailed_metrics
from divergraph.metrics.pairs.tensor_pairs import measured_pair
from divergraph.values.tensor_pair import TensorPair
from graphstore.model import DType, DumpFormat, DumpTensorRef, TensorIO


def test_the_last_block_of_channels_is_that_of_the_device_layout(tmp_path):
    """Types of one byte lie in blocks of 32 channels, so 80 channels end with block 64."""
    golden = np.arange(80 * 16).reshape(1, 80, 4, 4) % 50 + 1
    golden = golden.astype(np.int8)
    device = np.zeros((1, 96, 4, 4), np.int8)
    device[:, :80] = golden
    device[:, 64:80] *= 2
    device.reshape(1, 3, 32, 4, 4).transpose(0, 1, 3, 4, 2).tofile(tmp_path / "device.bin")
    np.save(tmp_path / "golden.npy", golden)
    pair = TensorPair(
        DumpTensorRef(
            tmp_path / "device.bin",
            DumpFormat.RAW,
            "conv",
            TensorIO.OUTPUT,
            0,
            DType.INT8,
            (1, 3, 4, 4, 32),
            0,
            device.nbytes,
            "NC1HWC0",
            (1, 80, 4, 4),
        ),
        DumpTensorRef(
            tmp_path / "golden.npy", DumpFormat.NPY, "conv", TensorIO.OUTPUT, 0, None, None
        ),
        "NCHW",
        "NCHW",
    )
    found = measured_pair(pair)
    words = "channels 64-79 of axis 1 (the last block of C0 = 32)"
    assert found.figures.where_bad == words
    [(number, figures)] = detailed_metrics([(7, pair, found)])
    assert (number, figures.where_bad) == (7, words)
    assert figures.max_ulp is None, "integers have none"
