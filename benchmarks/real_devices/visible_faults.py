"""A fault in the model that a runtime compiles, seen over what the runtime is off by without it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from model_faults import Faulty, ModelFault, faulty_models
from workplaces import Workplace

VISIBLE = 3.0
"""A fault counts if its error is so many times what the place is off by without it."""
_TRIES = 12
_KEEP_CHANNELS = ("BatchNormalization", "Relu", "Clip", "LeakyRelu", "HardSwish", "Sigmoid")
"""Ops that compilers take into the one before; what they give has its channels."""
_CHANNELS_FIRST = ("Conv", "ConvTranspose", "BatchNormalization")


@dataclass(frozen=True)
class VisibleFault:
    """A *fault*, the ``values`` the device dumps with it, and the dumped tensor that shows it: so
    many ``times`` what the place is off by without it."""

    fault: Faulty
    values: Mapping[str, Any]
    shown: str
    times: float


def visible_fault(
    place: Workplace, device: str, kind: ModelFault, seed: int
) -> VisibleFault | None:
    """A fault of this kind in one of some nodes; None where it shows in none of them."""
    rng = np.random.default_rng([seed, zlib.crc32(f"{place.name} {kind}".encode())])
    golden = place.runner.run(place.feeds)
    healthy = {
        name: value
        for name, value in place.device(device).items()
        if name in golden and value.shape == golden[name].shape
    }
    made = [name for name in healthy if healthy[name].dtype == np.float32]
    shown = _shown(place.runner.nodes, made)
    model = onnx.load_model(str(place.model_of(device)))
    for tried, fault in enumerate(faulty_models(model, kind, rng, list(shown))):
        if tried == _TRIES:
            break
        path = place.folder / "faulty.onnx"
        onnx.save_model(fault.model, str(path))
        values = place.dump_of(device, path)
        times = _visible(place, healthy, values, fault, shown[fault.tensor])
        if times is not None and times >= VISIBLE:
            return VisibleFault(fault, values, shown[fault.tensor], times)
    return None


def _shown(nodes: Sequence[onnx.NodeProto], made: Sequence[str]) -> dict[str, str]:
    """By what a node makes the dumped tensor that shows it: itself, one of those *made*, or where
    it was fused the one behind the ops it was fused with."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    shown = {name: name for name in made}
    for node in reversed(nodes):
        behind = readers.get(node.output[0], [])
        if len(behind) == 1 and behind[0].op_type in _KEEP_CHANNELS:
            at = shown.get(behind[0].output[0])
            if at is not None:
                shown.setdefault(node.output[0], at)
    return shown


def _visible(
    place: Workplace,
    healthy: Mapping[str, Any],
    values: Mapping[str, Any],
    fault: Faulty,
    shown: str,
) -> float | None:
    """How many times what the device is off by at the tensor where the fault is *shown* the fault
    makes it: of its channel, or of all of the output. None where the output cannot be made again,
    and where no output of the model shows the fault."""
    if shown not in values or values[shown].shape != healthy[shown].shape:
        return None
    reference = _reference(place, healthy, shown)
    ends = {end.name for end in place.runner.model.graph.output} & healthy.keys()
    if all(np.array_equal(values[end], healthy[end], equal_nan=True) for end in ends):
        return None
    after, before = values[shown], healthy[shown]
    after, before, reference = (
        of_channel(place, fault, each) for each in (after, before, reference)
    )
    size = float(np.linalg.norm(reference)) or 1.0
    usual = max(float(np.linalg.norm(before - reference)) / size, 2.0**-22)
    return float(np.linalg.norm(after - before)) / size / usual


def of_channel(place: Workplace, fault: Faulty, value: Any) -> Any:
    """What a fault hits of the tensor that shows it: its channel, or all of it."""
    if fault.channel is None:
        return value
    node = next(node for node in place.runner.nodes if fault.tensor in node.output)
    return np.take(value, fault.channel, _channel_axis(node, place.runner.constants))


def _reference(place: Workplace, healthy: Mapping[str, Any], shown: str) -> Any:
    """The tensor *shown* as the golden ops make it of what the device dumped before."""
    makers = {name: n for n, node in enumerate(place.runner.nodes) for name in node.output}
    known = {**place.runner.constants, **place.feeds, **healthy}
    del known[shown]
    waiting = [shown]
    while waiting:
        number = makers[waiting[-1]]
        missing = [n for n in place.runner.nodes[number].input if n and n not in known]
        if missing:
            waiting.extend(missing)
        else:
            known.update(place.runner._outputs(number, known))
            waiting.pop()
    return known[shown]


def _channel_axis(node: onnx.NodeProto, constants: Mapping[str, Any]) -> int:
    """The axis of the output along which the constants of *node* have a number each."""
    if node.op_type in _CHANNELS_FIRST:
        return 1
    known = [constants[name] for name in node.input if name in constants]
    if node.op_type in ("Add", "Mul") and known:
        shape = max((each.shape for each in known), key=lambda shape: max(shape, default=0))
        return int(np.argmax(shape)) - len(shape)
    return -1
