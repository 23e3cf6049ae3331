"""Faults in training steps of TensorFlow, gradients and updates among them: who is named first?

    python benchmarks/root_cause/training.py --steps mlp,cnn --devices fp16 --faults 12
    python benchmarks/root_cause/training.py --model model.ckpt.meta --dump GOLDEN \\
        --fed IteratorGetNext:0,IteratorGetNext:1

The steps are those of ``training_graphs.py``, or one of a file whose golden dump is at hand: then
variables and the tensors ``--fed`` are taken from the dump. A device (``training_device.py``) runs
the step with a fault in one tensor; what counts are faults that move what optimizers are
given, or the loss, more than its arithmetic does. Needs ``divergraph[tensorflow]``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from faults import VALUE_FAULTS, Array, Context, FaultKind, faulty_values
from measured import relative_error
from training_device import TrainingDevice
from training_graphs import FEEDS, STEPS

from divergraph.comparison import CompareRequest, compare
from divergraph.files.dump_names import MAPPING, DumpFileNames
from divergraph.files.npy_file import write_npy
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.options import MethodChoice
from graphstore.contract import RunData
from graphstore.model import Guilt, ModelGraph, TensorIO
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.dumps.read import read_array
from importers.registry import read_graph

_LEAST = 8
"""Elements of the tensors that get faults."""
_VISIBLE = 1.5
_UPDATES = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply", "Assign", "Scatter")
_HALF_BIAS, _EPSILON = "half of a bias lost", "epsilon"


@dataclass(frozen=True)
class Step:
    """A training step with its golden values; *options* say where its variables are."""

    name: str
    model: Path
    graph: ModelGraph
    golden: Path
    feeds: Mapping[str, Array]
    values: Mapping[str, Array]
    options: Mapping[str, str]

    def ends(self) -> list[str]:
        """What the step is for: what optimizers are given, and the loss."""
        found = [
            ref.tensor
            for op in self.graph.ops
            for ref in op.inputs
            if op.type.startswith(_UPDATES) and ref is not None
        ]
        made = {tensor.name for op in self.graph.ops for tensor in op.outputs}
        floats = [name for name in [*found, "loss:0"] if name in made and name in self.values]
        return [name for name in dict.fromkeys(floats) if self.values[name].dtype.kind == "f"]


@dataclass
class Counts:
    """Of one step on one device."""

    judged: int = 0
    unknown: int = 0
    false_guilty: int = 0
    false_suspect: int = 0
    faults: int = 0
    gradients: int = 0
    first: int = 0
    guilty: int = 0


def main() -> None:
    """Run the steps asked for; a line for each fault not named first, then the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", default=",".join(STEPS))
    parser.add_argument("--devices", default="fp16,fp32")
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--dump", type=Path)
    parser.add_argument("--fed", default="")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if given.model is not None:
            steps = [_stored(given.model, given.dump, given.fed.split(","))]
        else:
            steps = [_written(name, Path(folder) / name) for name in given.steps.split(",")]
        for step in steps:
            for device in given.devices.split(","):
                counts = _count(step, device, Path(folder), given.faults, given.seed)
                rows.append(
                    f"| {step.name} | {device} | {len(step.graph.ops)} | {counts.judged} "
                    f"| {counts.unknown} | {counts.false_guilty} | {counts.false_suspect} "
                    f"| {counts.faults} | {counts.gradients} | {counts.first} | {counts.guilty} |"
                )
                print(rows[-1], flush=True)
    print("| step | device | ops | tensors judged | not run | guilty | suspect", end="")
    print(" | faults | in gradients | first | called guilty |")
    print("\n".join(rows))


def _written(name: str, folder: Path) -> Step:
    script = Path(__file__).with_name("training_graphs.py")
    subprocess.run([sys.executable, str(script), name, str(folder)], check=True)
    files = json.loads((folder / FEEDS).read_text(encoding="utf-8"))
    model, golden = folder / "model.ckpt.meta", folder / "golden"
    capture(CaptureRequest(model, golden, {each: folder / files[each] for each in files}))
    graph = read_graph(model)
    feeds = {each: np.load(folder / files[each]) for each in files}
    options = {"checkpoint": str(folder / "model.ckpt")}
    return Step(name, model, graph, golden, feeds, _dumped(graph, golden), options)


def _stored(model: Path, golden: Path, fed: list[str]) -> Step:
    graph = read_graph(model)
    values = _dumped(graph, golden)
    feeds = {name: values[name] for name in fed}
    options = {"variables": str(golden)}
    return Step(model.parent.name, model, graph, golden, feeds, values, options)


def _dumped(graph: ModelGraph, golden: Path) -> dict[str, Array]:
    ops = graph.op_index()
    tensors = scan_golden_dumps(golden, graph).tensors
    return {
        ops[op].outputs[port].name: read_array(tensor)
        for (op, io, port), tensor in tensors.items()
        if io is TensorIO.OUTPUT
    }


def _count(step: Step, kind: str, folder: Path, faults: int, seed: int) -> Counts:
    device = TrainingDevice(step.model, kind, folder, step.options)
    healthy = device.run(step.feeds, list(step.values), {})
    found = _compared(step, healthy, folder)
    splits = [item.split for item in found.comparisons if item.split is not None]
    counts = Counts(sum(not each.failure for each in splits), sum(bool(e.failure) for e in splits))
    guilty = [each for each in splits if each.guilt is Guilt.GUILTY]
    counts.false_guilty, counts.false_suspect = len(guilty), len(found.suspects)
    if found.origins or found.suspects:
        named = [(each.op, each.suspicion) for each in (*found.origins, *found.suspects)]
        print(f"{step.name} {kind} without a fault: {found.run.verdict.value} {named}", flush=True)
    for tensor, fault, values in _faults(step, device, healthy, faults, seed):
        ranked = _compared(step, values, folder)
        names = [each.op for each in (*ranked.origins, *ranked.suspects)]
        counts.faults += 1
        counts.gradients += tensor.startswith("gradients")
        hit = names[:1] == [tensor.rpartition(":")[0]]
        counts.first += hit
        counts.guilty += hit and bool(ranked.origins)
        said = ranked.origins[0].cause if ranked.origins else ""
        print(
            f"{step.name} {kind} {'' if hit else 'MISSED '}{fault}: {tensor}: {names[:3]} {said}",
            flush=True,
        )
    return counts


def _faults(
    step: Step, device: TrainingDevice, healthy: Mapping[str, Array], most: int, seed: int
) -> Iterator[tuple[str, str, dict[str, Array]]]:
    """The tensor, its fault and all the device's values; each fault can be seen at the end."""
    rng = np.random.default_rng(seed)
    ends = step.ends()
    usual = {name: _off(healthy, step, name) for name in ends}
    places = [
        (op.name, op.outputs[0].name, op)
        for op in step.graph.ops
        if op.outputs and op.outputs[0].name in healthy and op.outputs[0].name not in step.feeds
    ]
    kinds = [*(each.value for each in VALUE_FAULTS), _HALF_BIAS, _EPSILON]
    done = 0
    for number, (name, tensor, op) in enumerate(places[at] for at in rng.permutation(len(places))):
        value = healthy[tensor]
        if value.dtype.kind != "f" or value.size < _LEAST or op.type in ("Const", "VariableV2"):
            continue
        reads = [healthy[ref.tensor] for ref in op.inputs if ref and ref.tensor in healthy]
        fault = kinds[number % len(kinds)]
        if op.type == "BiasAdd":
            fault = _HALF_BIAS
        elif "epsilon" in op.attrs:
            fault = _EPSILON
        wrong: dict[str, Array] = {}
        if fault == _HALF_BIAS:
            if op.type != "BiasAdd" or len(reads) < 2:  # a body has its inputs elsewhere
                fault = FaultKind.GAIN_2.value
            else:
                half = value.shape[-1] // 2
                wrong[tensor] = value.copy()
                wrong[tensor][..., half:] -= reads[1][half:].astype(value.dtype)
        elif fault == _EPSILON and "epsilon" not in op.attrs:
            fault = FaultKind.FLUSH.value
        if fault not in (_HALF_BIAS, _EPSILON):
            earlier = [healthy[t] for _, t, _ in places[:40] if healthy[t].dtype.kind == "f"]
            made = faulty_values(
                VALUE_FAULTS[FaultKind(fault)], value, rng, Context(reads, earlier)
            )
            if made is None:
                continue
            wrong[tensor] = np.asarray(made)
        values = device.run(step.feeds, list(step.values), wrong, name if fault == _EPSILON else "")
        if any(_off(values, step, end) > _VISIBLE * usual[end] + 1e-6 for end in ends):
            yield tensor, fault, values
            done += 1
        if done == most:
            return


def _off(values: Mapping[str, Array], step: Step, name: str) -> float:
    if name not in values:
        return 0.0
    return relative_error(values[name], step.values[name])


def _compared(step: Step, values: Mapping[str, Array], folder: Path) -> RunData:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        dump = Path(place)
        names = DumpFileNames(step.graph, 1)
        for op in step.graph.ops:
            for port, tensor in enumerate(op.outputs):
                if tensor.name in values:
                    write_npy(dump / names.of_output(op, port), values[tensor.name])
        if mapping := names.mapping():
            (dump / MAPPING).write_text(mapping, encoding="utf-8")
        request = CompareRequest(
            step.model, step.golden, step.model, dump, method=MethodChoice.ROOT_CAUSE
        )
        return compare(request)


if __name__ == "__main__":
    main()
