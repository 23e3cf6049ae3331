"""What people do today with the dumps alone: three rankings of the tensors that may be guilty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from faults import Array
from measured import relative_error
from op_runner import OpRunner, names_read


@dataclass(frozen=True)
class Group:
    """A measured tensor, the tensors made on the way to it, and the measured ones it reads."""

    tensor: str
    made: frozenset[str]
    inputs: tuple[str, ...]


def groups(runner: OpRunner, measured: set[str], inputs: set[str]) -> list[Group]:
    """One group for each measured tensor in execution order."""
    maker = {name: node for node in runner.nodes for name in node.output if name}
    found = []
    for node in runner.nodes:
        for tensor in node.output:
            if tensor not in measured:
                continue
            made, reads, stack = {tensor}, dict[str, None](), [tensor]
            while stack:
                for name in names_read(maker[stack.pop()]):
                    if name in measured or name in inputs:
                        reads[name] = None
                    elif name in maker and name not in runner.constants and name not in made:
                        made.add(name)
                        stack.append(name)
            found.append(Group(tensor, frozenset(made), tuple(reads)))
    return found


def cosine(device: Array, golden: Array) -> float:
    """The cosine of the angle between both, 0 where one is not finite or zero."""
    one, other = device.astype(np.float64).ravel(), golden.astype(np.float64).ravel()
    scale = float(np.linalg.norm(one) * np.linalg.norm(other))
    if not np.isfinite(scale):
        return 0.0
    return float(one @ other) / scale if scale else float(not (one.any() or other.any()))


def rankings(
    found: Sequence[Group],
    device: Mapping[str, Array],
    golden: Mapping[str, Array],
    unit: float,
    limit: float | None,
) -> dict[str, list[Group]]:
    """Groups by the name of the method, the most suspect first.

    *unit* is the device's unit of roundoff, *limit* the relative error from which on the
    frontier calls a tensor bad, None for a cosine below 0.99.
    """
    names = {each.tensor for each in found} | {name for each in found for name in each.inputs}
    error = {name: relative_error(device[name], golden[name]) for name in names}
    low = {
        name
        for name in names
        if device[name].shape == golden[name].shape and cosine(device[name], golden[name]) < 0.99
    }
    bad = low if limit is None else {name for name in names if error[name] > limit}

    def gain(group: Group) -> float:
        before = max((error[name] for name in group.inputs), default=0.0)
        if np.isinf(error[group.tensor]):
            return 0.0 if np.isinf(before) else float("inf")
        return error[group.tensor] / max(before, unit)

    return {
        "first cos < 0.99": [each for each in found if each.tensor in low],
        "DAG frontier": [
            each for each in found if each.tensor in bad and not bad.intersection(each.inputs)
        ],
        "gain": sorted(found, key=gain, reverse=True),
    }
