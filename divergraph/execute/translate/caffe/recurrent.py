"""Caffe's recurrent layers, step by step as the net they are made of.

``cont`` is 0 where a sequence begins: there what was before counts as zero. Time is the first axis.
"""

from __future__ import annotations

from collections.abc import Iterator

from divergraph.execute.translate.caffe.layer import CaffeLayer, row
from divergraph.execute.translate.caffe.shaping import count


@row("LSTM", source="lstm and lstm_unit")
def _lstm(layer: CaffeLayer) -> list[str]:
    """Gates in the order input, forget, output, candidate; ``cont`` closes the forget gate."""
    hidden = layer.integer("recurrent_param.num_output", 0)
    steps, streams, projected, place = _projected_inputs(layer, 4 * hidden)
    weight = layer.weight(place, 4 * hidden, hidden)
    state, cell = _begin(layer, streams, hidden, 2)
    outputs = []
    for cont, fed in _steps(layer, projected, steps, streams, 4 * hidden):
        before = layer.add("Gemm", layer.add("Mul", state, cont), weight, transB=1)
        gates = layer.add("Add", before, fed)
        gates_split = layer.piece.add_many("Split", 4, gates, axis=1, num_outputs=4)
        opened, forget, output_gate = (layer.add("Sigmoid", gate) for gate in gates_split[:3])
        new = layer.add("Mul", opened, layer.add("Tanh", gates_split[3]))
        old = layer.add("Mul", layer.add("Mul", forget, cont), cell)
        cell = layer.add("Add", old, new)
        state = layer.add("Mul", output_gate, layer.add("Tanh", cell))
        outputs.append(layer.reshape(state, (1, streams, hidden)))
    ends = [layer.reshape(state_part, (1, streams, hidden)) for state_part in (state, cell)]
    return [_joined(layer, outputs), *ends][: layer.tops]


@row("RNN", source="rnn")
def _rnn(layer: CaffeLayer) -> list[str]:
    """tanh(W_hh h + W_xh x + b_h), and tanh(W_ho h + b_o) of it as output."""
    hidden = layer.integer("recurrent_param.num_output", 0)
    steps, streams, projected, place = _projected_inputs(layer, hidden)
    weight = layer.weight(place, hidden, hidden)
    out, bias = layer.weight(place + 1, hidden, hidden), layer.weight(place + 2, hidden)
    (state,) = _begin(layer, streams, hidden, 1)
    outputs = []
    for cont, fed in _steps(layer, projected, steps, streams, hidden):
        before = layer.add("Gemm", layer.add("Mul", state, cont), weight, transB=1)
        state = layer.add("Tanh", layer.add("Add", before, fed))
        output = layer.add("Tanh", layer.add("Gemm", state, out, bias, transB=1))
        outputs.append(layer.reshape(output, (1, streams, hidden)))
    return [_joined(layer, outputs), layer.reshape(state, (1, streams, hidden))][: layer.tops]


def _exposed(layer: CaffeLayer) -> bool:
    return layer.flag("recurrent_param.expose_hidden", False)


def _projected_inputs(layer: CaffeLayer, width: int) -> tuple[int, int, str, int]:
    """Steps, streams, what the inputs give to all gates of all steps, and the place of the next
    weight."""
    steps, streams = layer.shape()[:2]
    inputs = count(layer.shape()[2:])
    flat = layer.reshape(layer.bottom(), (steps * streams, inputs))
    projected = layer.add(
        "Gemm", flat, layer.weight(0, width, inputs), layer.weight(1, width), transB=1
    )
    projected = layer.reshape(projected, (steps, streams, width))
    states = (2 if layer.settings.type == "LSTM" else 1) if _exposed(layer) else 0
    if len(layer.bottoms) - states < 3:
        return steps, streams, projected, 2
    size = count(layer.shape(2)[1:])
    still = layer.reshape(layer.bottom(2), (streams, size))
    still = layer.add("Gemm", still, layer.weight(2, width, size), None, transB=1)
    return steps, streams, layer.add("Add", projected, layer.reshape(still, (1, streams, width))), 3


def _begin(layer: CaffeLayer, streams: int, hidden: int, states: int) -> list[str]:
    """The states before the first step: the last bottoms, or zero."""
    if _exposed(layer):
        return [layer.reshape(bottom, (streams, hidden)) for bottom in layer.bottoms[-states:]]
    return [layer.array([[0.0] * hidden] * streams)] * states


def _steps(
    layer: CaffeLayer, projected: str, steps: int, streams: int, width: int
) -> Iterator[tuple[str, str]]:
    """``cont`` and what the inputs give, step by step."""
    cont = layer.reshape(layer.bottom(1), (steps, streams, 1))
    if steps == 1:
        yield layer.reshape(cont, (streams, 1)), layer.reshape(projected, (streams, width))
        return
    conts = layer.piece.add_many("Split", steps, cont, axis=0, num_outputs=steps)
    parts = layer.piece.add_many("Split", steps, projected, axis=0, num_outputs=steps)
    for one, part in zip(conts, parts, strict=True):
        yield layer.reshape(one, (streams, 1)), layer.reshape(part, (streams, width))


def _joined(layer: CaffeLayer, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else layer.add("Concat", *parts, axis=0)
