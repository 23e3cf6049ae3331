"""Is the dumped run the run that failed? Its outputs and fused groups beside those of a run without
dumping: a compiler that must keep every tensor fuses less, and what is fused less rounds otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from divergraph.graphs.lineage import link_graphs
from divergraph.graphs.pairing import Pair
from divergraph.inputs.sources import load_graph
from divergraph.metrics.limits.thresholds import Thresholds
from divergraph.metrics.pairs.measurement import Measurement
from divergraph.metrics.pairs.tensor_pairs import measured_pair
from divergraph.thresholds.doubts import undecided, with_doubt
from divergraph.values.tensor_pair import TensorPair
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import (
    DType,
    DumpTensorRef,
    Level,
    ModelGraph,
    ObservedOutput,
    ObservedRun,
    RegroupedOp,
    TensorIO,
    Verdict,
)
from importers.dumps.bare.index import BareTensor, find_tensors
from importers.dumps.bare.tensor import plain

_SAME = {DType.FLOAT16: 2.0**-9, DType.BFLOAT16: 2.0**-6}
_SAME_FLOAT = 2.0**-18
"""Relative errors up to which two runs are the same: a few units in the last place."""


@dataclass(frozen=True, slots=True)
class Undumped:
    """What is known of the device's run without dumping: its final ``outputs`` (a file or folder)
    and the ``graph`` it ran; None where not given."""

    outputs: Path | None = None
    graph: Path | None = None

    @property
    def paths(self) -> dict[str, str]:
        """What was given, as a run keeps its inputs."""
        paths = {"undumped_outputs": self.outputs, "undumped_graph": self.graph}
        return {name: str(path) for name, path in paths.items() if path is not None}


NOTHING_UNDUMPED = Undumped()


def observed(
    data: RunData, pairs: Sequence[Pair], undumped: Undumped, thresholds: Thresholds
) -> RunData:
    """*data* with what dumping changed. A failure that one of both runs has, but not the other, is
    a doubt about the verdict; where only the run without dumping fails, nothing can be decided.

    Raises:
        InputError: nothing there, or no tensor of it is an output of the model.
    """
    if undumped == NOTHING_UNDUMPED:
        return data
    outputs = tuple(_outputs(data, pairs, undumped.outputs, thresholds))
    same_groups, regrouped = 0, tuple[RegroupedOp, ...]()
    if undumped.graph is not None:
        same_groups, regrouped = _groups(data, undumped.graph)
    fine = max((output.moved or 0.0 for output in outputs), default=0.0) <= _repeat_error(data)
    observed_run = ObservedRun(fine if outputs else not regrouped, outputs, same_groups, regrouped)
    analysis = replace(data.run.analysis, observed=observed_run)
    data = replace(data, run=replace(data.run, analysis=analysis))
    return _doubted(data, outputs)


def _doubted(data: RunData, outputs: Sequence[ObservedOutput]) -> RunData:
    for output in outputs:
        if output.fails and not output.fails_dumped:
            data = with_doubt(
                data,
                f"the failure vanishes when it is observed: output {output.tensor} fails without "
                "dumping and passes in the dumped run, so the op to blame is not in this dump. "
                "Dump fewer tensors at a time",
            )
            return data if data.run.verdict is Verdict.DIVERGED else undecided(data)
        if output.fails_dumped and not output.fails:
            doubt = f"output {output.tensor} fails only when it is observed, not without dumping"
            return with_doubt(data, doubt)
    return data


def _repeat_error(data: RunData) -> float:
    """Up to which relative error two runs of the device are the same."""
    words = {"fp16": DType.FLOAT16, "bf16": DType.BFLOAT16}
    kind = words.get(data.run.analysis.arithmetic.precision)
    return _SAME_FLOAT if kind is None else _SAME[kind]


def _outputs(
    data: RunData, pairs: Sequence[Pair], path: Path | None, thresholds: Thresholds
) -> Iterator[ObservedOutput]:
    if path is None:
        return
    tensors = find_tensors(path).tensors
    ends = _ends(data, pairs)
    named = _named(data, ends)
    pair_of_tensor = {id(tensor): pair for tensor in tensors if (pair := _pair_of(tensor, named))}
    if not pair_of_tensor:  # of a part of the model, perhaps
        named = _named(data, pairs)
        pair_of_tensor = {
            id(tensor): pair for tensor in tensors if (pair := _pair_of(tensor, named))
        }
    if not pair_of_tensor and len(tensors) == len(ends) == 1:  # whatever it is called
        pair_of_tensor[id(tensors[0])] = ends[0]
    used: set[tuple[str, int]] = set()
    for tensor in tensors:
        pair, ref = pair_of_tensor.get(id(tensor)), tensor.ref
        if pair is None or ref is None or (pair.op.id, pair.port) in used:
            continue
        used.add((pair.op.id, pair.port))
        yield _output(data, pair, ref, thresholds)
    if not used:
        names = ", ".join(sorted({plain(pair.match.golden.op) for pair in ends})[:3])
        raise InputError(
            "no tensor here is an output of the model",
            where=str(path),
            hint=f"files are named after the tensor or op, such as {names or 'OUTPUT'}.npy",
        )


def _ends(data: RunData, pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs that are outputs of the golden model; without any, of the device's."""
    outputs = [pair for pair in pairs if pair.io is TensorIO.OUTPUT]
    golden = set(data.golden.outputs)
    pair_of_end = {pair.match.golden: pair for pair in outputs if pair.match.golden in golden}
    device = {(ref.op, ref.port) for ref in data.device.outputs}
    return list(pair_of_end.values()) or [one for one in outputs if (one.op.id, one.port) in device]


def _named(data: RunData, pairs: Sequence[Pair]) -> dict[str, Pair]:
    """The pairs by what a file of their tensor may be called; the device's names come first."""
    ops = data.golden.op_index()
    outputs = [pair for pair in pairs if pair.io is TensorIO.OUTPUT]
    golden = ((ops[pair.match.golden.op], pair.match.golden.port, pair) for pair in outputs)
    device = ((pair.op, pair.port, pair) for pair in outputs)
    pair_of_name: dict[str, Pair] = {}
    for op, port, pair in (*golden, *device):
        if port < len(op.outputs):
            pair_of_name[plain(op.outputs[port].name)] = pair
        pair_of_name[f"{plain(op.name)}.{port}"] = pair
    return pair_of_name


def _pair_of(tensor: BareTensor, named: Mapping[str, Pair]) -> Pair | None:
    identity = tensor.identity
    if identity.io is not TensorIO.OUTPUT:
        return None
    last = plain(tensor.name.rpartition("/")[2])
    keys = (last, f"{identity.op}.{identity.port}", *((identity.op,) if identity.port == 0 else ()))
    return next((named[key] for key in keys if key in named), None)


def _output(
    data: RunData, pair: Pair, ref: DumpTensorRef, thresholds: Thresholds
) -> ObservedOutput:
    layouts = pair.origin_layout, pair.golden_layout
    both = measured_pair(TensorPair(pair.device, ref, *layouts, pair.match.reorder))
    alone = measured_pair(TensorPair(ref, pair.golden, *layouts))
    dumped = measured_pair(pair.tensors)
    golden = data.golden.op_index()[pair.match.golden.op]
    return ObservedOutput(
        golden.outputs[pair.match.golden.port].name,
        pair.op.id,
        pair.port,
        _error(both),
        _error(dumped),
        _error(alone),
        _fails(pair, dumped, thresholds),
        _fails(pair, alone, thresholds),
        both.detail or alone.detail,
    )


def _error(measurement: Measurement) -> float | None:
    metrics = measurement.metrics
    if metrics is None:
        return None
    error = metrics.relative_euclidean_distance
    return metrics.different / max(metrics.elements, 1) if math.isnan(error) else error


def _fails(pair: Pair, measurement: Measurement, thresholds: Thresholds) -> bool:
    if measurement.metrics is None:
        return False
    judgement = thresholds.judge(
        measurement.metrics,
        measurement.figures,
        device=measurement.device_dtype,
        golden=measurement.golden_dtype,
        op_type=pair.op.type,
        name=pair.op.name,
    )
    return judgement.level is Level.FAIL


def _groups(data: RunData, path: Path) -> tuple[int, tuple[RegroupedOp, ...]]:
    """How many fused ops of the run without dumping the dumped graph has, too, and the others."""
    other = load_graph(path).graph
    dumped, undumped = (_fused(graph, data.golden) for graph in (data.device, other))
    owners: dict[str, list[str]] = {}
    for op, originals in dumped.items():
        for name in originals:
            owners.setdefault(name, []).append(op)
    fused_groups = {originals for originals in dumped.values() if len(originals) > 1}
    groups = {op: originals for op, originals in undumped.items() if len(originals) > 1}
    lost = {op: originals for op, originals in groups.items() if originals not in fused_groups}
    return len(groups) - len(lost), tuple(
        RegroupedOp(
            op,
            tuple(sorted(originals)),
            tuple(dict.fromkeys(own for name in sorted(originals) for own in owners.get(name, ()))),
        )
        for op, originals in lost.items()
    )


def _fused(graph: ModelGraph, golden: ModelGraph) -> dict[str, frozenset[str]]:
    """By op of a device graph the golden ops it stands for."""
    golden_names = {op.name for op in golden.ops if op.inputs} | {
        op.id for op in golden.ops if op.inputs
    }
    names_of = {op.id: op.original_names for op in graph.ops if op.original_names is not None}
    if names_of:
        return {op: frozenset(names) & golden_names for op, names in names_of.items()}
    originals: dict[str, set[str]] = {}
    for link in link_graphs(golden, graph).links:
        originals.setdefault(link.device, set()).add(link.original)
    return {op: frozenset(names) & golden_names for op, names in originals.items()}
