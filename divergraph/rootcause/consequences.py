"""NaN, infinities and overflows that follow from a fault before them are no faults of their own.

An op that is fed with what a fault made, infinite, stuck to the largest number, or so large that
its squares overflow, may give anything: devices differ in what they make of it. Only where such
values do not reach does its output say something of the op itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.devices.mixed_precision import Arithmetics
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.nonfinite_origins import IGNORED
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.run_inputs import Splits
from divergraph.rootcause.values import norms, same_shape
from graphstore.model import ErrorSplit, Guilt, Role, TensorRef
from graphstore.traverse.algorithms import descendants
from graphstore.traverse.topological_order import graph_arrays

_BEYOND = 16.0
"""How many times golden's largest value a number is that only a fault makes. Changes the verdict of
no case: values whose squares overflow are larger by far."""
_SAME = 1e-3
"""Relative difference up to which a result did not depend on such numbers."""


def with_consequences(run: PreparedRun, arithmetics: Arithmetics, splits: Splits) -> Splits:
    """*splits* without the guilt of ops that are only wrong where a guilty op before them made NaN,
    infinities or far too large numbers."""
    return _Consequences(run, arithmetics, splits).without_them()


@dataclass
class _Consequences:
    run: PreparedRun
    arithmetics: Arithmetics
    found: Splits

    def without_them(self) -> Splits:
        arrays = graph_arrays(self.run.inputs.data.device)
        # Numbers made of nothing but NaN are no consequence of it: NaN would be.
        ignoring = {
            TensorRef(finding.op, finding.port)
            for finding in self.found.findings
            if finding.label == IGNORED
        }
        accused = [
            ref
            for ref, split in self.found.by_output.items()
            if split.guilt is not Guilt.NONE and not split.failure and ref not in ignoring
        ]
        guilty = {ref.op for ref in accused if self._is_guilty(ref)}
        ops_after = {op: self._behind(op) for op in guilty}
        splits = dict(self.found.by_output)
        for ref in sorted(accused, key=lambda output: arrays.number[output.op]):
            after_one = any(ref.op in ops_after[op] for op in guilty if op != ref.op)
            if after_one and self._follows(ref, splits[ref]):
                splits[ref] = replace(
                    splits[ref], guilt=Guilt.NONE, role=Role.CARRIES, propagated=math.inf
                )
                guilty -= {ref.op}
        if splits == self.found.by_output:
            return self.found
        freed = {ref for ref in accused if splits[ref].guilt is Guilt.NONE}
        findings = tuple(
            finding
            for finding in self.found.findings
            if TensorRef(finding.op, finding.port) not in freed
        )
        return replace(self.found, by_output=splits, findings=findings)

    def _is_guilty(self, ref: TensorRef) -> bool:
        return self.found.by_output[ref].guilt is Guilt.GUILTY

    def _behind(self, op: str) -> frozenset[str]:
        arrays = graph_arrays(self.run.inputs.data.device)
        return frozenset(arrays.ids[n] for n in descendants(arrays, [arrays.number[op]]))

    def _follows(self, ref: TensorRef, split: ErrorSplit) -> bool:
        """Whether an output is right wherever extreme values of its inputs do not reach."""
        group = self.found.groups[ref]
        feeds, missing = self.run.runs.feeds(group)
        device = self.run.values.device(ref)
        if missing or device is None or not group.ops:
            return False
        largest = self.arithmetics.of(group).precision.largest or float(np.finfo(np.float32).max)
        usual = dict(self._without_extremes(group, feeds, largest))
        if not usual:
            return False
        if self._shares_scales(group):
            return True  # with one such value all that have its scale are others
        # With two other values in their places, as one alone may give the same by chance.
        instead = [
            {
                name: np.where(extreme, factor * right, feeds[name]).astype(right.dtype)
                for name, (extreme, right) in usual.items()
            }
            for factor in (1.0, -0.5)
        ]
        outputs = [
            None if isinstance(reference_run, str) else same_shape(reference_run, device.shape)
            for reference_run in self.run.runs.references(
                [group] * 3, [feeds, *({**feeds, **changed} for changed in instead)]
            )
        ]
        reference = outputs[0]
        if reference is None or reference.dtype.kind != "f":
            return True  # nothing can be said of it
        there = np.abs(reference) < largest
        for other in outputs[1:]:
            if other is None:
                return True
            with np.errstate(all="ignore"):
                there &= np.abs(reference - other) <= _SAME * np.abs(other)
        if not there.any():
            return True
        error, size = norms(device[there], reference[there])
        return error <= self.run.options.guilty * (split.floor or 0.0) * size

    def _shares_scales(self, group: Group) -> bool:
        golden, operands = self.run.golden, self.arithmetics.operands
        return any(operands.of(golden.ops[op], golden).scaled for op in group.ops)

    def _without_extremes(
        self, group: Group, feeds: Mapping[str, Array], largest: float
    ) -> Iterator[tuple[str, tuple[Array, Array]]]:
        """The inputs that hold values only a fault makes: where, and what golden has."""
        for feed in group.feeds:
            value = feeds[feed.tensor]
            item = None if feed.device is None else self.run.runs.compared.get(feed.device)
            golden = None if item is None or item.golden is None else item.golden
            right = None if golden is None else self.run.values.golden(golden)
            right = None if right is None else same_shape(right, value.shape)
            if right is None or value.dtype.kind != "f" or right.dtype.kind != "f":
                continue
            with np.errstate(all="ignore"):
                largest_value = float(np.max(np.abs(right), initial=0.0, where=np.isfinite(right)))
                smallest_extreme = max(math.sqrt(largest), _BEYOND * largest_value)
                extreme = (~np.isfinite(value) | (np.abs(value) > smallest_extreme)) & np.isfinite(
                    right
                )
                # Masks like -1e9 are infinite in float16, which is what they stand for.
                instead = right.astype(value.dtype)
            if extreme.any():
                yield feed.tensor, (extreme, instead)
