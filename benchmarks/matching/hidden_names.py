"""How many tensors are matched, and how many rightly, when all names on the device are hidden.

    python benchmarks/matching/hidden_names.py MODEL.onnx ...

For each model: the graph as it is, optimised by ONNX Runtime (extended, and all with
channel blocks), in float16, and with a faulty weight in the middle; every tensor and node
of the device graph gets a meaningless name. The truth is the hidden name.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from divergraph.capture import CaptureRequest, StandIn, capture
from divergraph.execution.installed import open_executor
from divergraph.lineage import link_graphs
from divergraph.matching import MatchSources, match_more
from graphstore.model import ModelGraph, TensorIO, TensorMatch, TensorRef
from importers.dumps import DumpIndex, scan_golden_dumps
from importers.registry import read_graph


@dataclass(frozen=True)
class Case:
    """A device model with hidden names; ``truth`` is each tensor's name before."""

    name: str
    model: Path
    truth: dict[str, str]


def cases(model: Path, folder: Path) -> Iterator[Case]:
    """The device models of one golden model."""
    yield hidden("as it is", onnx.load(str(model)), folder)
    for level in ("EXTENDED", "ALL"):
        target = folder / f"{level}.onnx"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}"
        )
        options.optimized_model_filepath = str(target)
        onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        yield hidden(f"optimised, {level.lower()}", onnx.load(str(target)), folder)
    half = folder / "half"
    capture(CaptureRequest(model, half, device=StandIn.FP16, seed=1))
    yield hidden("float16", onnx.load(str(next(half.glob("*.onnx")))), folder)
    for place in (0.1, 0.5):
        yield hidden(f"faulty weight at {place:.0%}", faulty(onnx.load(str(model)), place), folder)


def faulty(model: onnx.ModelProto, place: float) -> onnx.ModelProto:
    """*model* with the outputs of one Conv, MatMul or Gemm far off in half the channels."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            weights[node.output[0]] = node.attribute[0].t
    nodes = [
        node
        for node in model.graph.node
        if node.op_type in ("Conv", "MatMul", "Gemm") and node.input[1] in weights
    ]
    tensor = weights[nodes[int(len(nodes) * place)].input[1]]
    value = numpy_helper.to_array(tensor).copy()
    value.reshape(-1)[::2] *= -3
    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return model


def hidden(name: str, model: onnx.ModelProto, folder: Path) -> Case:
    """*model* with meaningless names of nodes and tensors, inputs and outputs kept."""
    graph = model.graph
    kept = {value.name for value in graph.input} | {value.name for value in graph.output}
    new: dict[str, str] = {}
    for place, node in enumerate(graph.node):
        node.name = f"n{place}"
        for port, output in enumerate(node.output):
            if output and output not in kept:
                new[output] = f"t{place}_{port}"
    for node in graph.node:
        for names in (node.input, node.output):
            for position, old in enumerate(names):
                names[position] = new.get(old, old)
    del graph.value_info[:]
    path = folder / f"{name.replace(' ', '_').replace('%', '')}.hidden.onnx"
    onnx.save_model(model, str(path))
    return Case(name, path, {hid: old for old, hid in new.items()})


def dumped(model: Path, folder: Path) -> tuple[ModelGraph, DumpIndex]:
    """A model's graph and captured dump."""
    capture(CaptureRequest(model, folder, seed=1))
    graph = read_graph(model)
    return graph, scan_golden_dumps(folder, graph)


def main() -> None:
    """Print a line a case."""
    print(f"{'model':16} {'device':22} {'hidden':>6} {'found':>6} {'right':>6} {'wrong':>6}  seconds")
    for argument in sys.argv[1:]:
        model = Path(argument)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            golden, golden_dump = dumped(model, folder / "golden")
            executor = open_executor(model, golden)
            for number, case in enumerate(cases(model, folder)):
                device, device_dump = dumped(case.model, folder / f"dump{number}")
                start = time.process_time()
                lineage = match_more(
                    link_graphs(golden, device),
                    device,
                    MatchSources(golden_dump, device_dump, executor),
                )
                seconds = time.process_time() - start
                report(model.stem[:16], case, golden, device, lineage.outputs, golden_dump, seconds)


def report(model, case, golden, device, outputs, golden_dump, seconds) -> None:
    ops = golden.op_index()
    by_name = {t.name: TensorRef(op.id, p) for op in golden.ops for p, t in enumerate(op.outputs)}
    from divergraph.matching.constants import constant_ops
    from divergraph.matching.values import DumpedValues
    from divergraph.matching.closeness import distance

    values = DumpedValues(golden_dump)
    constants = constant_ops(golden)
    total = found = right = wrong = 0
    worst = []
    for op in device.ops:
        for port, tensor in enumerate(op.outputs):
            truth = case.truth.get(tensor.name)
            if truth is None or truth not in by_name or by_name[truth].op in constants:
                continue
            total += 1
            match = outputs[TensorRef(op.id, port)]
            if not isinstance(match, TensorMatch):
                worst.append((tensor.name, truth, op.type, match.reason.value, match.detail[:100]))
                continue
            found += 1
            same = match.golden == by_name[truth]
            if not same:
                a, b = values.of(match.golden), values.of(by_name[truth])
                same = a is not None and b is not None and a.size == b.size and distance(a.reshape(-1), b.reshape(-1)) == 0
            right += same
            wrong += not same
            if not same:
                worst.append((tensor.name, truth, op.type, "WRONG", match))
    print(f"{model:16} {case.name:22} {total:6} {found:6} {right:6} {wrong:6}  {seconds:.1f}")
    if "-v" in __import__("os").environ.get("V", ""):
        for each in worst[:12]:
            print("     ", *each)


if __name__ == "__main__":
    main()
