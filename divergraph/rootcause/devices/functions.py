"""How exactly a device computes functions: exponentials, roots and the like.

Vector units use polynomials and tables for them, which are off by up to some hundred units of the
last place of float32, or one of 16 bits in numbers next to 1, which is many in those next to 0;
compilers take formulas for some that are off by more. The graph does not say by how much, but it is
the same in all ops of a type, so their errors show it.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.families import family_of
from divergraph.rootcause.devices.arithmetic import agreement, measured
from divergraph.rootcause.devices.formulas import FORMULAS, Approximated, Approximation, fused
from divergraph.rootcause.groups.group_runs import GroupSample, Samples
from divergraph.rootcause.groups.groups import FEW_GROUPS, Group, sampled_groups
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.local_errors import Noise, last_place_noise, local_suspicion
from divergraph.rootcause.tolerances.noise_floor import Emulation

FUNCTIONS = frozenset(
    {
        *("Exp", "Expm1", "Log", "Log1p", "Pow", "Sqrt", "Rsqrt", "Reciprocal", "Div", "RealDiv"),
        *("Sigmoid", "HardSigmoid", "Tanh", "Erf", "Erfc", "Softplus", "Gelu", "Elu", "Selu"),
        *("Celu", "Mish"),
        *("QuickGelu", "FastGelu", "BiasGelu", "Swish", "Silu", "Softmax", "LogSoftmax"),
        *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"),
        *("LayerNormalization", "SkipLayerNormalization", "RMSNormalization"),
        *("InstanceNormalization", "GroupNormalization", "LpNormalization", "ReduceLogSumExp"),
        *("FusedBatchNorm", "FusedBatchNormV3", "SoftmaxCrossEntropyWithLogits"),
        *("LSTM", "GRU", "RNN"),
    }
)
"""Op types of ONNX and TensorFlow that compute such a function."""


def find_functions(
    golden: OpGraph,
    groups: Sequence[Group],
    samples: Callable[[Sequence[Group]], Samples],
    floors: Callable[[Approximated], Emulation],
) -> dict[str, Approximation]:
    """The op types whose functions the device approximates, and how.

    *samples* runs groups on the device's inputs, *floors* gives the emulation under a hypothesis.
    A type is judged by groups without other functions where there are any, else by mixed ones; a
    fault in a few of its ops does not move their median. Functions that compilers know as part of
    a larger one are judged apart where they are computed with other ops.
    """
    approximated: dict[str, Approximation] = {}
    alone = _alone(golden, groups)
    types = {group.output: kind for kind, own in alone.items() for group in own}
    seen: dict[str, list[float]] = {}
    ran = samples([group for own in alone.values() for group in own])
    exact = floors({})
    for sample in ran:
        ratio = _ratio_of(sample, exact)
        seen.setdefault(types[sample.group.output], []).extend([] if ratio is None else [ratio])
    for kind, ratios in seen.items():
        if ratios and statistics.median(ratios) > calibration.FUNCTION_INEXACT:
            approximated |= _approximation(ran.of(alone[kind]), kind, {}, floors)
    # Types that never stand alone, by shortest group: each one found makes the next decidable.
    mixed: dict[str, list[Group]] = {}
    for group in groups:
        for kind in set(_kinds(golden, [group])):
            if kind not in seen:
                mixed.setdefault(kind, []).append(group)
            elif kind in FORMULAS and len(group.ops) > 1:
                mixed.setdefault(fused(kind), []).append(group)
    for kind, among in sorted(mixed.items(), key=lambda item: min(len(g.ops) for g in item[1])):
        few = samples(sampled_groups(among, FEW_GROUPS, 1))
        if _median(few, floors(approximated)) > calibration.FUNCTION_INEXACT:
            approximated |= _approximation(few, kind, approximated, floors)
    return approximated


def _kinds(golden: OpGraph, groups: Iterable[Group]) -> Iterator[str]:
    """The types of functions in groups that can be run."""
    for group in groups:
        if not (group.failure or group.is_passthrough):
            yield from (kind for op in group.ops if (kind := golden.ops[op].type) in FUNCTIONS)


def _alone(golden: OpGraph, groups: Iterable[Group]) -> dict[str, Sequence[Group]]:
    """By type of function a few groups with no other function and no matrix op."""
    by_type: dict[str, list[Group]] = {}
    for group in groups:
        kinds = set(_kinds(golden, [group]))
        ops = (golden.ops[op_id] for op_id in group.ops)
        multiplied = any(family_of(op) and op.type not in FUNCTIONS for op in ops)
        if len(kinds) == 1 and not multiplied:
            by_type.setdefault(kinds.pop(), []).append(group)
    return {kind: sampled_groups(own_groups, FEW_GROUPS, 1) for kind, own_groups in by_type.items()}


def _approximation(
    samples: Samples,
    kind: str,
    approximated: Approximated,
    floors: Callable[[Approximated], Emulation],
) -> dict[str, Approximation]:
    """The smallest relative error for *kind* that explains most of *samples*, or else the formula
    whose errors they have; empty if even the largest that approximations have does not: then it is
    a fault. What several groups have in common may be off further: one alone may have the fault."""
    precision = floors(approximated).precision
    smallest = calibration.FUNCTION_SMALLEST
    if precision.rounds:
        smallest = calibration.FUNCTION_SMALLEST_16_BIT * precision.unit
    sizes = [smallest * 2.0**step for step in range(calibration.FUNCTION_STEPS)]

    def fits(approximation: Approximation) -> bool:
        floor = floors({**approximated, kind: approximation})
        return _median(samples, floor) <= calibration.FUNCTION_FITS

    def hypotheses() -> Iterator[list[Approximation]]:
        yield [Approximation(size) for size in sizes]
        for formula in FORMULAS.get(kind.removeprefix(fused("")), ()):
            exactly = floors({**approximated, kind: Approximation(0.0, formula)})
            if _agreement(samples, exactly) >= calibration.FORMULA_ALIKE:
                yield [Approximation(size, formula) for size in (0.0, *sizes)]
        # A fault in one does not move the median of three.
        if precision.rounds and len(samples.groups) > 2:
            further = range(1, calibration.FUNCTION_STEPS_IN_COMMON + 1)
            yield [Approximation(sizes[-1] * 2.0**step) for step in further]

    for tried in hypotheses():
        if fits(tried[-1]):  # larger errors explain more
            return {kind: tried[bisect_left(tried, True, hi=len(tried) - 1, key=fits)]}
    return {}


def _agreement(samples: Iterable[GroupSample], floors: Emulation) -> float:
    """The median of the cosines between the device's errors and the emulation's."""
    cosines = [
        agreement(device, emulated, sample.reference) or 0.0
        for sample in samples
        for _, device, emulated in filter(None, [measured(sample, floors)])
        if emulated is not None
    ]
    return statistics.median(cosines) if cosines else 0.0


def _median(samples: Iterable[GroupSample], floors: Emulation) -> float:
    """The median of error over floor; 0 where none can be measured."""
    ratios = [ratio for sample in samples if (ratio := _ratio_of(sample, floors)) is not None]
    return statistics.median(ratios) if ratios else 0.0


def _ratio_of(sample: GroupSample, floors: Emulation) -> float | None:
    """Error over floor of an output or of its worst part: an approximation may be good for most
    values, and far off in the tail."""
    measurement = measured(sample, floors)
    if measurement is None:
        return None
    ratio, device, emulated = measurement
    if emulated is None:
        return ratio
    noise = Noise((emulated,), floors.precision, least=last_place_noise(floors.precision))
    return max(ratio, local_suspicion(sample.reference, device, noise))


def functions_remark(floors: Emulation) -> str:
    """The run's note on approximated functions; "" without any."""
    approximated = floors.approximated
    if not approximated:
        return ""
    names = [
        kind if approximation.formula is None else f"{kind} (by {approximation.formula.name})"
        for kind, approximation in sorted(approximated.items())
    ]
    off = max(approximation.off for approximation in approximated.values())
    return (
        f"{floors.precision}, but {', '.join(names)} {'is' if len(names) == 1 else 'are'} "
        f"approximated, off by up to {off:.0e} of a value"
    )
