"""The second witness of root cause: is a guilty op right by its own definition?

An op that is wrong by the original's definition and right by its own was changed on its way to the
device: fused wrongly, given another attribute, robbed of an operand. One that is wrong by its own
definition, too, is computed wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.run_inputs import RunSources
from divergraph.values.array_types import Array
from divergraph.values.one_tensor import read_tensor
from divergraph.values.unread import Unread
from divergraph.verification.operands import DumpedOperands
from divergraph.verification.verify_dump import Verification, verify
from graphstore.contract import RunData
from graphstore.errors import ExecutionError, ImportFormatError
from graphstore.model import (
    FAULT_OF,
    FaultOf,
    Finding,
    FindingKind,
    Framework,
    Guilt,
    Op,
    TensorIO,
    TensorRef,
)
from importers.om.constants import OfflineWeights, weights

_MOST_OPS = 50
"""Guilty ops that are run once more. Bounds cost: a run with more has another trouble."""


def with_witness(data: RunData, sources: RunSources, options: RootCauseOptions) -> RunData:
    """*data* with the word of the guilty ops' own definitions among the evidence of their causes,
    where the device is Ascend's and they have one."""
    causes = [finding for finding in data.findings if finding.kind is FindingKind.CAUSE]
    guilty = {origin.op for origin in data.origins[:_MOST_OPS]} & {cause.op for cause in causes}
    if data.device.framework is not Framework.ASCEND or not guilty:
        return data
    operands = DumpedOperands(
        data.device,
        sources.device_dump,
        _offline(sources.device_path),
        given=_undumped_values(data, sources, guilty),
    )
    try:
        verification = verify(operands, options, only=frozenset(guilty))
    except ExecutionError:
        return data  # nothing here runs ops by themselves: one witness has to do
    return replace(data, findings=tuple(_heard(finding, verification) for finding in data.findings))


def _heard(finding: Finding, verification: Verification) -> Finding:
    if finding.kind is not FindingKind.CAUSE:
        return finding
    split = verification.splits.get(TensorRef(finding.op, max(finding.port, 0)))
    if split is None or verification.doubt or split.guilt is Guilt.SUSPECT:
        return finding
    fault = FaultOf.KERNEL if split.guilt is Guilt.GUILTY else FaultOf.COMPILER
    return replace(finding, evidence={**finding.evidence, FAULT_OF: fault.value})


def _offline(path: Path) -> OfflineWeights | None:
    if path.suffix != ".om" or not path.is_file():
        return None
    try:
        return weights(path)
    except ImportFormatError:
        return None  # the graph was read; without its weights some ops have no witness


def _undumped_values(
    data: RunData, sources: RunSources, guilty: Iterable[str]
) -> Mapping[str, Array]:
    """Variables and constants the device did not dump, by op, as the golden side had them."""
    ops = data.device.op_index()
    values: dict[str, Array] = {}
    for name in {ref.op for op in guilty for ref in ops[op].takes}:
        if (name, TensorIO.OUTPUT, 0) in sources.device_dump.tensors or name not in ops:
            continue
        value = _of_golden(ops[name], sources)
        if value is not None:
            values[name] = value
    return values


def _of_golden(op: Op, sources: RunSources) -> Array | None:
    if op.inputs:
        return None  # computed: golden's value need not be the device's
    for name in (op.name, f"{op.name}/read", f"{op.name}/Read/ReadVariableOp"):
        ref = sources.golden_dump.tensors.get((name, TensorIO.OUTPUT, 0))
        if ref is not None and ref.statistics is None:
            value = read_tensor(ref)
            return None if isinstance(value, Unread) else value
    return None
