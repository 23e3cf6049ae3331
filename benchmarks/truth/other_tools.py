"""What rules of other tools say of the same tensors: which op is the first to fail.

Each rule is given the metrics of one tensor and looks at ops in order, as their users do. They are
written from what the tools do by default; the tools are not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def _cosine(metrics: Any) -> bool:
    """MindStudio's expert advice: the first op whose cosine similarity is below .99."""
    return bool(metrics.cosine_similarity < 0.99)


def _msprobe(metrics: Any) -> bool:
    """msprobe 26, ``check_accuracy``: the column *Accuracy Reached or Not*."""
    cosine, largest = metrics.cosine_similarity, metrics.max_absolute_error
    return bool((cosine < 0.99 and largest > 1e-3) or cosine < 0.9 or largest > 1.0)


def _polygraphy(metrics: Any) -> bool:
    """Polygraphy's ``CompareFunc.simple``: an element with an absolute and a relative error over
    1e-5; told here from the two largest, which may be errors of two elements."""
    return bool(metrics.max_absolute_error > 1e-5 and metrics.max_relative_error > 1e-5)


BASELINES: Mapping[str, Callable[[Any], bool]] = {
    "cosine .99": _cosine,
    "msprobe": _msprobe,
    "Polygraphy": _polygraphy,
}
"""By name, whether a tensor with these metrics fails."""


def first_to_fail(data: Any, faulty: set[str]) -> dict[str, str]:
    """By baseline whether its first failing op makes one of the *faulty* tensors: ``nothing``
    fails, ``right`` or ``wrong``. *data* is a run of the product."""
    order = {op.id: number for number, op in enumerate(data.device.ops)}
    names = {op.id: {tensor.name for tensor in op.outputs} for op in data.device.ops}
    answers = {}
    for name, fails in BASELINES.items():
        failing = {
            item.op for item in data.comparisons if item.metrics is not None and fails(item.metrics)
        }
        first = min(failing, key=order.__getitem__, default=None)
        answers[name] = (
            "nothing" if first is None else "right" if faulty & names[first] else "wrong"
        )
    return answers
