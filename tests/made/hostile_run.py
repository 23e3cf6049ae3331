"""A run whose names are meant to break out of every format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from divergraph.metrics.measure import measure
from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    Counts,
    DType,
    ErrorSplit,
    Finding,
    FindingKind,
    Framework,
    GraphKind,
    Guilt,
    InputRef,
    Level,
    Method,
    ModelGraph,
    Op,
    OpState,
    Origin,
    Reason,
    Role,
    Run,
    Tensor,
    TensorIO,
    TensorRef,
    Verdict,
)

HOSTILE = (
    "=evil|<b>`x`</b></script><script>document.title='gone'</script>\u2028\"'&"
    "\x1b[2J\x1b]52;c;cm0=\x07[red]y[/]\u202ebackwards"
)


def hostile_run() -> RunData:
    """Three ops: one clean, one guilty with a name meant to break out, one not compared."""
    names = ("first", HOSTILE, "last")
    inputs = [(), *[(InputRef(f"{name}:0", TensorRef(name, 0)),) for name in names]]
    ops = tuple(
        Op(
            id=name,
            name=name,
            type="Relu",
            inputs=inputs[place],
            outputs=(Tensor(f"{name}:0"),),
            sequence=place,
        )
        for place, name in enumerate(names)
    )
    graph = ModelGraph("net", GraphKind.DEVICE, Framework.ASCEND, "ge_proto", ops)
    golden = np.linspace(-1, 1, 8, dtype=np.float32)
    wrong = golden.copy()
    wrong[3] = np.nan
    facts = {"shape": (8,), "device_dtype": DType.FLOAT32, "golden_dtype": DType.FLOAT32}
    made = ErrorSplit(Role.INTRODUCES, Guilt.GUILTY, np.inf, 0.0, 1e-7, np.inf, None, (HOSTILE,))
    comparisons = (
        Comparison(
            "first",
            TensorIO.OUTPUT,
            0,
            TensorRef("first", 0),
            metrics=measure(golden, golden).metrics,
            level=Level.PASS,
            **facts,
        ),
        Comparison(
            HOSTILE,
            TensorIO.OUTPUT,
            0,
            TensorRef(HOSTILE, 0),
            metrics=measure(wrong, golden).metrics,
            level=Level.FAIL,
            limit="default: NaN",
            split=made,
            **facts,
        ),
        Comparison("last", TensorIO.OUTPUT, 0, reason=Reason.NO_DEVICE_DUMP, detail=HOSTILE),
    )
    metrics = comparisons[1].metrics
    assert metrics is not None
    origin = Origin(1, HOSTILE, "Relu", 0, (), metrics, Level.FAIL, np.inf, HOSTILE)
    found = Finding(FindingKind.CAUSE, "births", f"NaN starts in {HOSTILE}", HOSTILE)
    value = Run(
        "hostile",
        "",
        "",
        "2026-01-02T03:04:05.678+00:00",
        Verdict.DIVERGED,
        Method.ROOT_CAUSE,
        Counts(3, 3, 2, 1, 1),
        {"relative_euclidean_distance": 0.05, "warn.relative_euclidean_distance": 0.01},
        warnings=(f"odd\x00 {HOSTILE}",),
    )
    states = dict(zip(names, (OpState.CLEAN, OpState.ORIGIN, OpState.NOT_COMPARED), strict=True))
    original = replace(graph, kind=GraphKind.ORIGINAL)
    return RunData(value, original, graph, (), comparisons, states, (origin,), (), (found,))


ACTS = f"\x1b[2J\x1b]52;c;cm0=\x07\x9b31m\u202e\u2028\u200f\n{HOSTILE[:3]}\r\t\x7f"
_FACTS = frozenset(("created", "sha256", "format", "source", "divergraph", "thresholds"))
"""Fields that hold no words of strangers: times, sums, names of ours."""


def hostile_throughout(data: RunData) -> RunData:
    """*data* with each name, type, layout, path, attribute, reason and note of it hostile."""
    return replace(_made_hostile(data), run=replace(_made_hostile(data.run), name=data.run.name))


def _made_hostile(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Enum):
        return value + ACTS if value else value
    if isinstance(value, tuple):
        return tuple(map(_made_hostile, value))
    if isinstance(value, Mapping):
        return {_made_hostile(key): _made_hostile(each) for key, each in value.items()}
    if is_dataclass(value):
        changed = {
            each.name: _made_hostile(getattr(value, each.name))
            for each in fields(value)
            if each.init and each.name not in _FACTS
        }
        return replace(value, **changed)
    return value
