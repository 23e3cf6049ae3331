"""The injected faults: which op, which kind, and whether a user would see it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from devices import Device
from faults import OP_FAULTS, VALUE_FAULTS, Array, Context, faulty_op, faulty_values
from measured import final_error, graph_outputs
from op_runner import Injection, float_outputs
from reported_faults import REPORTED_OP_FAULTS, REPORTED_VALUE_FAULTS

OPS = {**OP_FAULTS, **REPORTED_OP_FAULTS}
VALUES = {**VALUE_FAULTS, **REPORTED_VALUE_FAULTS}

VISIBLE = 1.5
"""A fault counts if the final error is at least so many times that of the healthy device."""
_TRIES = 6


@dataclass(frozen=True)
class Case:
    """One fault at the op that makes *tensor*; ``values`` are all tensors of the faulty run."""

    kind: StrEnum
    seed: int
    tensor: str
    op_type: str
    clean: float
    error: float
    values: Mapping[str, Array]


@dataclass(frozen=True)
class Healthy:
    """A device without fault: all its values, the golden ones, and its final error."""

    device: Device
    values: Mapping[str, Array]
    golden: Mapping[str, Array]
    error: float

    @classmethod
    def of(cls, device: Device, feeds: Mapping[str, Array], golden: Mapping[str, Array]) -> Healthy:
        """The device run once."""
        values = device.runner.run(feeds)
        outputs = graph_outputs(device.runner.model)
        return cls(device, values, golden, final_error(outputs, values, golden))


def visible_fault(healthy: Healthy, kind: StrEnum, seed: int) -> Case | None:
    """A fault of that kind at a random op; None if none of a few can be seen at the end."""
    for injection in _injections(healthy, kind, seed):
        case = _case(healthy, kind, seed, injection)
        if case is not None:
            return case
    return None


def _case(healthy: Healthy, kind: StrEnum, seed: int, injection: Injection) -> Case | None:
    runner = healthy.device.runner
    values = runner.rerun(healthy.values, injection)
    if values is None:
        return None
    error = final_error(graph_outputs(runner.model), values, healthy.golden)
    if error <= VISIBLE * healthy.error:
        return None
    node = runner.nodes[injection.node]
    return Case(kind, seed, node.output[0], node.op_type, healthy.error, error, values)


def _injections(healthy: Healthy, kind: StrEnum, seed: int) -> Iterator[Injection]:
    runner = healthy.device.runner
    rng = np.random.default_rng([seed, zlib.crc32(kind.value.encode())])
    places = [
        number
        for number in float_outputs(runner, healthy.values)
        if runner.nodes[number].output[0] in healthy.golden
    ]
    tried = 0
    for number in rng.permutation(places).tolist():
        if tried == _TRIES:
            return
        if kind in OPS:
            edit = faulty_op(OPS[kind], runner.edit_of(number), rng)
            if edit is None:
                continue
            yield Injection(number, edit=edit)
        else:
            context = _around(healthy, number)
            given = healthy.values[runner.nodes[number].output[0]]
            if faulty_values(VALUES[kind], given, np.random.default_rng(seed), context) is None:
                continue
            state = rng.spawn(1)[0]
            yield Injection(
                number,
                values=lambda value, context=context, state=state: faulty_values(  # type: ignore[misc]
                    VALUES[kind], value, state, context
                ),
            )
        tried += 1


def _around(healthy: Healthy, number: int) -> Context:
    nodes = healthy.device.runner.nodes
    node = nodes[number]
    earlier = [nodes[place].output[0] for place in range(max(0, number - 40), number)]
    return Context(
        [healthy.values[name] for name in node.input if name],
        [healthy.values[name] for name in earlier if nodes and name in healthy.values],
        node,
    )
