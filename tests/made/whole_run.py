"""A run whose models and dumps are there, and the view of parts driven on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from browsing import Browser
from float32_device import KNOWN
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest
from divergraph.comparison.keep_run import compare_into
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.open_store import open_store
from tui.widgets.row_list import RowList


def network(path: Path, scale: float = 1.0) -> Path:
    """x -> mul0 -> relu0 -> mul1 -> relu1 -> join (with relu0) -> last; *scale* spoils mul1."""
    rng = np.random.default_rng(3)
    weights = {f"w{k}": rng.uniform(0.5, 1, (8, 8)).astype(np.float32) for k in range(3)}
    weights["w1"] = weights["w1"] * np.float32(scale)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["m0"], name="mul0"),
        helper.make_node("Relu", ["m0"], ["r0"], name="relu0"),
        helper.make_node("MatMul", ["r0", "w1"], ["m1"], name="mul1"),
        helper.make_node("Relu", ["m1"], ["r1"], name="relu1"),
        helper.make_node("Add", ["r0", "r1"], ["sum"], name="join"),
        helper.make_node("MatMul", ["sum", "w2"], ["y"], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def kept_whole(folder: Path) -> str:
    """A store in *folder* with the run ``whole``, and the same run ``gone`` without its files."""
    golden, device = network(folder / "net.onnx"), network(folder / "device.onnx", 1.5)
    feed = folder / "x.npy"
    np.save(feed, np.linspace(0.1, 1, 8, dtype=np.float32).reshape(1, 8))
    capture(CaptureRequest(golden, folder / "golden", {"x": feed}))
    capture(CaptureRequest(device, folder / "device", {"x": feed}))
    url = str(folder / "store")
    with open_store(url) as store:
        request = CompareRequest(
            golden, folder / "golden", device, folder / "device", root_cause=KNOWN
        )
        compare_into(store, request, name="whole")
        data = store.run_data("whole")
        inputs = {what: path.replace("parts", "nowhere") for what, path in data.run.inputs.items()}
        store.save_run(replace(data, run=replace(data.run, name="gone", inputs=inputs)))
    return url


class PartBrowser(Browser):
    """Marks the ends of parts in the submodel view."""

    async def press(self, *keys: str) -> None:
        for key in keys:
            await super().press(key)
            await self.settle(self.pilot)

    async def stand_on(self, op: str) -> None:
        listed = self.app.screen.query_one("#part-ops", RowList)
        listed.cursor = listed.source.listed.place[op]
        await self.settle(self.pilot)

    async def mark(self, starts: Sequence[str] = (), ends: Sequence[str] = ()) -> None:
        for op in starts:
            await self.stand_on(op)
            await self.press("b")
        for op in ends:
            await self.stand_on(op)
            await self.press("B")
