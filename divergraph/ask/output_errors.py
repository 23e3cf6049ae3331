"""The outputs of a run with their errors and splits only. For a run of a hundred thousand ops these
few columns are read in a fraction of the time that whole comparisons take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from graphstore.contract import GraphStore
from graphstore.cypher.original_ids import may_be_escaped, original_ids
from graphstore.gc_paused import gc_paused
from graphstore.model import ErrorSplit, Level, Run, Side, TensorRef
from graphstore.schema.record_columns import split_values, with_nan

_SLICE = 50_000
_LEVELS = {None: None} | {level.value: level for level in Level}


@dataclass(frozen=True, slots=True)
class OutputError:
    """An output of a device op that was compared or split.

    ``distance`` is the relative Euclidean distance (of an output that was not compared, or has
    none, NaN); ``broken`` is true if the device has values that are not finite. ``golden`` is
    None where no golden tensor is known.
    """

    topo: int
    op: str
    type: str
    port: int
    compared: bool
    level: Level | None
    golden: TensorRef | None
    distance: float
    broken: bool
    split: ErrorSplit | None


def output_errors(store: GraphStore, run: Run) -> list[OutputError]:
    """The outputs of *run* in saved order."""
    with gc_paused():
        partners: dict[Any, Any] = dict(store.named("output_partners", run.name, {}).rows)  # type: ignore[arg-type]
        rows: list[tuple[Any, ...]] = []
        names: tuple[str, ...] = ()
        for first in range(0, run.counts.ops, _SLICE):
            window = {"first": first, "until": first + _SLICE}
            answer = store.named("output_errors", run.name, window)
            names = answer.columns
            rows += answer.rows
        rows.sort(key=itemgetter(0))
        errors = _outputs(dict(zip(names, zip(*rows, strict=True), strict=False)), partners)
    if may_be_escaped(one.op for one in errors) or may_be_escaped(partners.values()):
        return _with_own_names(store, run.name, errors)
    return errors


def _outputs(
    columns: Mapping[str, Sequence[Any]], partners: Mapping[Any, Any]
) -> list[OutputError]:
    if not columns:
        return []
    golden = list(map(partners.get, columns["seq"], columns["golden_op"]))
    columns = with_nan({**columns, "golden_op": golden})
    refs = zip(golden, columns["golden_port"], strict=True)
    return list(
        map(
            OutputError,
            *(columns[name] for name in ("topo", "op", "type", "port", "compared")),
            map(_LEVELS.__getitem__, columns["level"]),
            [None if op is None else TensorRef(op, port) for op, port in refs],
            [math.nan if one is None else one for one in columns["relative_euclidean_distance"]],
            map(bool, columns["device_nonfinite"]),
            split_values(columns),
        )
    )


def _with_own_names(
    store: GraphStore, run: str, errors: Sequence[OutputError]
) -> list[OutputError]:
    device, golden = (original_ids(store.graph(run, side)) for side in (Side.DEVICE, Side.GOLDEN))

    def own(one: OutputError) -> OutputError:
        ref, split = one.golden, one.split
        if ref is not None:
            ref = replace(ref, op=golden.get(ref.op, ref.op))
        if split is not None:
            split = replace(split, group=tuple(golden.get(op, op) for op in split.group))
        return replace(one, op=device.get(one.op, one.op), golden=ref, split=split)

    return [own(one) for one in errors]
