"""Real runs of a small ONNX network, one of its weights changed on the device's side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from float32_device import KNOWN
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest
from divergraph.comparison.keep_run import compare_into
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.contract import GraphStore
from graphstore.open_store import open_store

# x -> stem -> act -> (left, right) -> join -> scale -> shift -> head -> y
NODES = (
    ("MatMul", ("x", "w_stem"), "stem"),
    ("Relu", ("stem",), "act"),
    ("MatMul", ("act", "w_left"), "left"),
    ("MatMul", ("act", "w_right"), "right"),
    ("Add", ("left", "right"), "join"),
    ("Mul", ("join", "factor"), "scale"),
    ("Add", ("scale", "bias"), "shift"),
    ("Tanh", ("shift",), "squash"),
    ("MatMul", ("squash", "w_head"), "y"),
)


def network(path: Path, fault: str | None = None, prefix: str = "") -> Path:
    """The network as a file; *fault* names the weight that is a third off."""
    random = np.random.default_rng(11)
    weights = {name: random.standard_normal((16, 16)) / 4 for name in ("w_stem", "w_left")}
    weights |= {name: random.standard_normal((16, 16)) / 4 for name in ("w_right", "w_head")}
    weights |= {"factor": np.array(0.5), "bias": random.standard_normal(16)}
    if fault is not None:
        weights[fault] = weights[fault] * 1.3
    nodes = [
        helper.make_node(kind, list(inputs), [out], name=f"{prefix}{out}")
        for kind, inputs, out in NODES
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 16]) for name in "xy"]
    constants = [
        numpy_helper.from_array(np.asarray(value, np.float32), name)
        for name, value in weights.items()
    ]
    graph = helper.make_graph(nodes, "network", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)
    return path


MakeRun = Callable[..., None]


@pytest.fixture(scope="module")
def network_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphStore]:
    """An empty store."""
    with open_store(tmp_path_factory.mktemp("network") / "store") as store:
        yield store


@pytest.fixture(scope="module")
def network_run(network_store: GraphStore, tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    """Compares a device with the golden network and keeps the run."""
    folder = tmp_path_factory.mktemp("models")
    golden = network(folder / "golden.onnx")
    capture(CaptureRequest(golden, folder / "golden", seed=5))

    def make(
        name: str,
        fault: str | None = None,
        missing: Iterable[str] = (),
        prefix: str = "",
        seed: int = 5,
    ) -> None:
        device = network(folder / f"{name}.onnx", fault, prefix)
        dump = folder / name
        capture(CaptureRequest(device, dump, seed=seed))
        for op in missing:
            (path,) = dump.glob(f"{prefix}{op}.0.*.npy")
            path.unlink()
        request = CompareRequest(golden, folder / "golden", device, dump, root_cause=KNOWN)
        compare_into(network_store, request, name=name)

    return make
