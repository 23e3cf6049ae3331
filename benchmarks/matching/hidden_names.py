"""How many tensors are matched, and how many wrongly, when all names on the device are hidden.

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
from functools import partial
from pathlib import Path

import onnx
import onnxruntime
from onnx import numpy_helper

from divergraph.execute.installed import open_executor
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from divergraph.graphs.lineage import Lineage, link_graphs
from divergraph.graphs.matching import MatchSources, match_more
from divergraph.graphs.matching.constants import constant_ops
from divergraph.values.closeness import Array, distance
from divergraph.values.dumped_values import DumpedValues
from graphstore.model import ModelGraph, TensorMatch, TensorRef
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.dumps.index import DumpIndex
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


@dataclass(frozen=True)
class Count:
    """Hidden tensors, those matched, and those matched with a tensor of another value."""

    hidden: int
    found: int
    wrong: int


def main() -> None:
    """Print a line a case."""
    print(f"{'model':20} {'device':24} {'hidden':>6} {'found':>6} {'wrong':>6}  CPU s")
    for argument in sys.argv[1:]:
        model = Path(argument)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            golden, golden_dump = dumped(model, folder / "golden")
            for number, case in enumerate(cases(model, folder)):
                device, device_dump = dumped(case.model, folder / f"dump{number}")
                start = time.process_time()
                sources = MatchSources(
                    golden_dump, device_dump, partial(open_executor, model, golden)
                )
                lineage = match_more(link_graphs(golden, device), device, sources)
                seconds = time.process_time() - start
                count = counted(case, device, lineage, golden_dump)
                print(
                    f"{model.stem[:20]:20} {case.name:24} {count.hidden:6} {count.found:6} "
                    f"{count.wrong:6}  {seconds:.1f}"
                )


def counted(case: Case, device: ModelGraph, lineage: Lineage, golden_dump: DumpIndex) -> Count:
    """How many tensors that depend on an input were matched."""
    golden = lineage.golden.graph
    constants = constant_ops(golden)
    true = {
        tensor.name: TensorRef(op.id, port)
        for op in golden.ops
        for port, tensor in enumerate(op.outputs)
        if op.id not in constants
    }
    values = DumpedValues(golden_dump, 1 << 28)
    hidden_tensors = found = wrong = 0
    for op in device.ops:
        for port, tensor in enumerate(op.outputs):
            truth = true.get(case.truth.get(tensor.name, ""))
            if truth is None:
                continue
            hidden_tensors += 1
            match = lineage.outputs[TensorRef(op.id, port)]
            if isinstance(match, TensorMatch):
                found += 1
                wrong += not same_value(values.of(match.golden), values.of(truth))
    return Count(hidden_tensors, found, wrong)


def same_value(one: Array | None, other: Array | None) -> bool:
    """Whether two golden tensors are one value: then either is right."""
    if one is None or other is None or one.size != other.size:
        return False
    return distance(one.reshape(-1), other.reshape(-1)) == 0.0


if __name__ == "__main__":
    main()
