"""A run whose dumps are made by hand, so that each digit on screen is the same everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from divergraph.comparison import CompareRequest
from divergraph.comparison.keep_run import compare_into
from divergraph.files.dump_names import DumpFileNames
from divergraph.files.npy_file import write_npy
from divergraph.rootcause.options import MethodChoice
from graphstore.open_store import open_store
from importers.registry import read_graph

SHAPE = (2, 6, 8, 8)


def kept_values(folder: Path) -> str:
    """A store in *folder* with the run ``values``: ``relu`` has channel 4 off by a half and all
    else by thousandths, ``tanh`` is right but for one NaN."""
    model = folder / "net.onnx"
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in ("x", "y")]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Tanh", ["r"], ["y"], name="tanh"),
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:])
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(model))

    count = int(np.prod(SHAPE))
    golden = ((np.arange(count) * 37 % 101) / np.float32(101)).astype(np.float32).reshape(SHAPE)
    device = golden + (np.arange(count).reshape(SHAPE) % 3 == 0) * np.float32(1 / 1024)
    device[:, 4] += np.float32(0.5)
    broken = golden / 2
    broken[1, 2, 3, 4] = np.nan
    known = read_graph(model)
    for side, values in (("golden", (golden, golden / 2)), ("device", (device, broken))):
        (folder / side).mkdir()
        names = DumpFileNames(known, 1)
        for op, value in zip(known.ops, values, strict=True):
            write_npy(folder / side / names.of_output(op, 0), value.astype(np.float32))
    url = str(folder / "store")
    with open_store(url) as store:
        method = MethodChoice.THRESHOLDS
        sides = (model, folder / "golden", model, folder / "device")
        compare_into(store, CompareRequest(*sides, method=method), name="values")
    return url
