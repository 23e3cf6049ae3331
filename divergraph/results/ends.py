"""The compared tensors that stand for the outputs of the model."""

from __future__ import annotations

from dataclasses import dataclass

from graphstore.contract import RunData
from graphstore.model import Comparison, TensorIO, TensorRef
from graphstore.traverse.reach import reached


@dataclass(frozen=True, slots=True)
class ResultTensors:
    """``compared`` device tensors that are outputs of the model, or the last ones before an output
    that was not compared; ``misshapen`` ones are outputs whose shape is not golden's."""

    compared: tuple[Comparison, ...]
    misshapen: tuple[Comparison, ...]


def result_tensors(data: RunData) -> ResultTensors:
    """The tensors of a run that show what the model's outputs are like.

    A training step ends with updated variables, which are in no dump, so its gradients stand for
    them.
    """
    by_golden = {
        item.golden: item  # of several, the last: what leaves the device
        for item in data.comparisons
        if item.io is TensorIO.OUTPUT and item.golden is not None
    }
    ops = data.golden.op_index()
    ends = [TensorRef(ref.op, ref.port) for ref in data.golden.outputs if ref.op in ops]
    misshapen = [
        item for ref in ends if (item := by_golden.get(ref)) is not None and item.misshapen
    ]
    refs = {ref for ref, item in by_golden.items() if item.compared and not item.misshapen}
    settled = {item.golden for item in misshapen} | refs

    def before(ref: TensorRef) -> list[TensorRef]:
        return [] if ref in settled or ref.op not in ops else list(ops[ref.op].takes)

    # What feeds the model, and its constants, are no results of it.
    met = [
        ref
        for ref in reached(ends, before)
        if ref in refs and (ref in ends or (ref.op in ops and ops[ref.op].takes))
    ]
    return ResultTensors(tuple(by_golden[ref] for ref in met), tuple(misshapen))
