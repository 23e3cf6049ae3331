"""Nothing simulated: faults in a model's weights, converted to float16 by ONNX Runtime's tools,
captured, compared, and minimised by running the device's own ops.

    python benchmarks/minimize/real_faults.py MODEL.onnx --runs 6 [--shape x=1,3,48,192]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from divergraph.cli.main import run
from divergraph.execute.stand_ins import StandIn, make_stand_in

KINDS = ("gain 2 %", "weights 2 %", "dead channel", "lost sign")
WEIGHTED = ("Conv", "Gemm", "MatMul", "ConvTranspose")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--shape", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        golden, feed = folder / "golden.onnx", folder / "feed.npy"
        model = onnx.load(str(options.model))
        name, _, sizes = options.shape.partition("=")
        if sizes:
            _fix(model, name, [int(size) for size in sizes.split(",")])
        onnx.save(model, str(golden))
        given = model.graph.input[0]
        shape = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
        np.save(feed, np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32))
        inputs = f"{given.name}={feed}"
        _call("capture", golden, "--inputs", inputs, "-o", folder / "golden")
        rows = [_one(model, seed, folder, inputs) for seed in range(options.runs)]
    rows = [row for row in rows if row is not None]
    calls = [row[0] for row in rows]
    print(
        f"{len(rows)} visible faults: mean {np.mean(calls):.1f} calls (most {max(calls)}), "
        f"{np.mean([row[1] for row in rows]):.1f} ops left on average, "
        f"{sum(row[2] for row in rows)} contain the culprit"
    )


def _fix(model: onnx.ModelProto, name: str, sizes: list[int]) -> None:
    given = next(each for each in model.graph.input if each.name == name)
    for dim, size in zip(given.type.tensor_type.shape.dim, sizes, strict=True):
        dim.dim_value = size


def _one(
    model: onnx.ModelProto, seed: int, folder: Path, inputs: str
) -> tuple[int, int, bool] | None:
    draw = np.random.default_rng(seed)
    broken = onnx.ModelProto.FromString(model.SerializeToString())
    known = {each.name: each for each in broken.graph.initializer}
    constants = {
        node.output[0]: node.attribute[0].t
        for node in broken.graph.node
        if node.op_type == "Constant" and node.attribute[0].HasField("t")
    }
    tensors = {**constants, **known}
    nodes = [
        node for node in broken.graph.node if node.op_type in WEIGHTED and node.input[1] in tensors
    ]
    node, kind = nodes[int(draw.integers(len(nodes)))], KINDS[seed % len(KINDS)]
    tensor = tensors[node.input[1]]
    value = _faulty(numpy_helper.to_array(tensor).copy(), kind, draw)
    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    place = folder / f"run{seed}"
    place.mkdir()
    plain, device = place / "plain.onnx", place / "device.onnx"
    onnx.save(broken, str(plain))
    make_stand_in(plain, StandIn.FP16, device, {})
    _call("capture", device, "--inputs", inputs, "-o", place / "dump")
    sides = ["--golden", folder / "golden.onnx", "--golden-dump", folder / "golden"]
    sides += ["--device", device, "--device-dump", place / "dump", "--run", "r"]
    _call("compare", *sides, "--store", place / "store")
    started = time.process_time()
    told = json.loads(_call("minimize", "r", "--store", place / "store", "--fresh", "--json"))
    taken = time.process_time() - started
    if not told["probes"]:
        print(f"{kind:13} {node.name}: not visible")
        return None
    graph = {each.name: each.output[0] for each in broken.graph.node}
    hit = any(node.name in part["ops"] or graph[node.name] in part["outputs"]
              for part in told["parts"])  # fmt: skip
    sizes = [len(part["ops"]) for part in told["parts"]]
    print(
        f"{kind:13} {node.name}: {told['calls']} calls, parts of {sizes} ops, "
        f"{'right' if hit else 'WRONG'}, {taken:.1f} s CPU, {told['note']}",
        flush=True,
    )
    return told["calls"], sum(sizes), hit


def _faulty(value: np.ndarray, kind: str, draw: np.random.Generator) -> np.ndarray:
    if kind == "gain 2 %":
        return value * np.float32(1.02)
    if kind == "weights 2 %":
        return value * (1 + 0.02 * draw.standard_normal(value.shape)).astype(np.float32)
    if kind == "dead channel":
        value[int(draw.integers(len(value)))] = 0
        return value
    return -value


def _call(*arguments: object) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = run([str(each) for each in arguments])
    if code not in (0, 1):
        raise SystemExit(f"{arguments[0]} ended with {code}")
    return said.getvalue()


if __name__ == "__main__":
    main()
