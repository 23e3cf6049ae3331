"""One device output judged by the product's own steps, without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from divergraph.rootcause.devices.precision import Precision
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.quantised_ops import QuantisedOps
from divergraph.rootcause.groups.groups import Feed, Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.judgement import Judgement, expect, split_of
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.tolerances.contract import OpContext, ToleranceEstimate
from divergraph.rootcause.tolerances.noise_floor import Emulation
from graphstore.model import Adjustment, ErrorSplit, Framework, GraphKind, ModelGraph, Op, TensorRef

_RNG = np.random.default_rng(11)
V = _RNG.standard_normal(4000).astype(np.float32)
W = _RNG.standard_normal(4000).astype(np.float32)
H = FP16.rounded(V)
"""A reference, errors to add to it, and the reference as float16 holds it."""


def acted(found: Judgement, name: str) -> Adjustment | None:
    """What the tolerance of this name did to a judgement; None if nothing."""
    return next((each for each in found.adjustments if each.tolerance == name), None)


class NoExecutor:
    """Of an output whose group is not run again: its emulation is given."""

    name = "test"


class Emulated(Emulation):
    """An arithmetic whose emulations are given: nothing is run."""

    drawn: Sequence[np.ndarray] = ()
    clamped: np.ndarray | None = None
    numbers: tuple[float, ...] = ()
    step_of_output: float | None = None

    def draws(self, group, given, count):
        """The drawn ones, once."""
        found, self.drawn = self.drawn[:count], self.drawn[count:]
        return iter(found)

    def emulated(self, groups, feeds):
        """None: there is no model."""
        return [None] * len(groups)

    def emulated_converted(self, group, given):
        """Given."""
        return self.clamped

    def mask_sentinels(self, group):
        """Given."""
        return self.numbers

    def step(self, group):
        """Given."""
        return self.step_of_output


def context(
    precision: Precision = FP16,
    *,
    given: Mapping[str, np.ndarray] | None = None,
    ops: int = 1,
    inputs_error: float | None = None,
    options: RootCauseOptions | None = None,
    integers: bool = False,
    fed: bool = True,
    kind: str = "Any",
) -> OpContext:
    """What is known of an output of a group of so many *ops* of a *kind*."""
    output = TensorRef("op", 0)
    names = (*(f"op{number}" for number in range(ops - 1)), "op")
    nodes = tuple(Op(name, name, kind) for name in names)
    golden = OpGraph(ModelGraph("g", GraphKind.ORIGINAL, Framework.ONNX, "onnx", nodes))
    floors = Emulated(NoExecutor(), golden, precision, 1 << 20)
    kernels = frozenset({"QLinearConv"}) if integers else frozenset()
    feeds = (Feed("x"),) if fed else ()
    group = Group(output, output, names, feeds, kernels=kernels)
    options = options or RootCauseOptions()
    quantised = QuantisedOps(golden, floors, options.suspect)
    return OpContext(
        NoExecutor(), golden, options, quantised, False, group, given or {}, floors, inputs_error
    )


def judged(
    device: np.ndarray,
    reference: np.ndarray,
    emulation: np.ndarray | None = None,
    golden: np.ndarray | None = None,
    known: OpContext | None = None,
) -> tuple[Judgement, ErrorSplit]:
    """The whole judgement of a *device* output."""
    known = known or context()
    found = expect(known, reference, device, emulation)
    return found, split_of(found, reference if golden is None else golden, known, "test")


def split_by(
    device: np.ndarray,
    reference: np.ndarray,
    golden: np.ndarray,
    floor: float,
    known: OpContext,
    absolute: float = 0.0,
) -> ErrorSplit:
    """The split by a floor that is given."""
    estimate = ToleranceEstimate(reference, device, floor, absolute)
    return split_of(Judgement(estimate), golden, known, "test")
