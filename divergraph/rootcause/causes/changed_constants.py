"""Other values of constants: how the output moves with them tells which values the device has.

Nothing is known here of any op: a value is moved a little, the group is run again, and the slope
says how far it must go. So it holds for a bias, a scale, a mean, a variance, an exponent, a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from divergraph.rootcause.causes.affine import affine
from divergraph.rootcause.causes.changed_weights import changed_weights
from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, Floats, Mask, SampledTensors, rms
from divergraph.rootcause.causes.limits import CLOSE, FEW, GUESS, LIKELY, ROUNDS, STEP, SURE
from divergraph.rootcause.causes.line_fits import wrong_slices
from divergraph.rootcause.causes.reruns.operands import LARGEST
from divergraph.rootcause.causes.words import as_well, is_epsilon, values_text
from divergraph.rootcause.values import TINY
from graphstore.model import Evidence, Op

_MOST_CHANGED = 8
"""Values of a constant that may have changed one by one; more is another fault."""
_ONE_OF = 64
"""Of so many values one may have changed where few elements show it."""
_LESS = 0.5
"""The share of what one explanation leaves that a better one may leave."""


@dataclass(frozen=True)
class _Constant:
    """A constant with one value for each slice of ``axis`` of the output, or a single value."""

    op: Op
    name: str
    value: Array
    axis: int | None

    def of(self, values: Floats) -> Array:
        """The constant with these values in place of its own."""
        return values.reshape(self.value.shape).astype(self.value.dtype)


def changed_constant(view: SampledTensors) -> Cause | None:
    """The op was computed with another value of a constant."""
    if view.case.reweigh is None or view.case.device.size > LARGEST:
        return None
    if not view.visible:
        return None
    causes = [
        cause for constant in _constants(view) if (cause := _explained(view, constant)) is not None
    ]
    if not causes or _bias(view):
        return None
    exact = [other for other in causes if other.confidence == causes[0].confidence]
    others = [f" (or {other_cause.evidence['words']})" for other_cause in exact[1:2]]
    best = exact[0]
    weights = changed_weights(view) if view.case.linear else None
    if weights is not None:
        lefts = [float(str(other_cause.evidence["left"])) for other_cause in (weights, best)]
        if lefts[0] < _LESS * lefts[1]:
            return weights
        if lefts[1] >= _LESS * lefts[0]:
            first, second = (weights, best) if lefts[0] < lefts[1] else (best, weights)
            return as_well(first, second)
    evidence = {key: value for key, value in best.evidence.items() if key != "words"}
    return Cause(best.label, best.sentence + "".join(others), best.confidence, evidence)


def _bias(view: SampledTensors) -> bool:
    """Whether a bias was lost or added twice, which says more than its values."""
    line = affine(view)
    return line is not None and line.label in ("lost_bias", "doubled_bias")


def _constants(view: SampledTensors) -> Iterator[_Constant]:
    shape = view.case.reference.shape
    for op in view.case.ops:
        read = dict.fromkeys(ref.tensor for ref in op.inputs if ref is not None)
        # The bodies of a loop read constants that are no input of the loop.
        for name in (
            *read,
            *(name for name in view.case.constants if op.owns and name not in read),
        ):
            value = view.case.constants.get(name)
            if value is None or value.dtype.kind != "f" or not np.isfinite(value).all():
                continue
            if value.size == 1:
                yield _Constant(op, name, value, None)
            elif value.size == max(value.shape, default=0):
                axes = [axis for axis in view.axes() if shape[axis] == value.size]
                for axis in axes:
                    if view.steps[axis] == 1:
                        yield _Constant(op, name, value, axis)


def _explained(view: SampledTensors, constant: _Constant) -> Cause | None:
    solved = _solved(view, constant)
    if solved is None:
        return None
    values, output, wrong = solved
    own = constant.value.astype(np.float64).reshape(-1)
    difference = values - own
    if view.explains(output) and (constant.axis is None or _few(view, wrong)):
        numbers = np.flatnonzero(wrong)
        return _cause(view, constant, output, numbers, own, values)
    if constant.axis is None or not wrong.all():
        return None
    for words, changed in (
        ("larger", own + np.median(difference)),
        ("times", own * _ratio(own, values)),
    ):
        if rms(values - changed) > CLOSE * rms(difference):
            continue
        made_alike = _run(view, constant, changed)
        if made_alike is not None and view.exact(made_alike):
            return _common(view, constant, made_alike, words, own, changed)
    return None


def _few(view: SampledTensors, wrong: Mask) -> bool:
    count = int(np.count_nonzero(wrong))
    per_value = view.d.size // wrong.size
    if per_value == 1 and view.case.linear:
        return False  # a weight would do the same
    share = 4 if per_value >= FEW else _ONE_OF
    return 0 < count <= min(_MOST_CHANGED, max(1, wrong.size // share))


def _ratio(own: Floats, values: Floats) -> float:
    use = own != 0.0
    return float(np.median(values[use] / own[use])) if use.any() else 1.0


def _solved(view: SampledTensors, constant: _Constant) -> tuple[Floats, Floats, Mask] | None:
    """The values that come nearest to the device, what the group gives with them, and which of
    them changed; None where the output does not move with them."""
    axis = constant.axis
    rest = None if axis is None else tuple(n for n in range(view.d.ndim) if n != axis)

    def total(values: Floats) -> Floats:
        return np.asarray(values.sum(axis=rest)).reshape(-1)

    own = constant.value.astype(np.float64).reshape(-1)
    wrong = np.ones(own.shape, bool)
    if axis is not None:
        wrong[:] = False
        wrong[wrong_slices(view, axis)] = True
    size = np.where(own != 0.0, np.abs(own), float(np.abs(own).max()) or 1.0)
    # Not the reference: a step must show more than what that allows for beside runs.
    values, at, step = own.copy(), _run(view, constant, own), STEP * size
    if at is None:
        return None
    best = rms(view.d - at)
    for _ in range(ROUNDS):
        moved = _run(view, constant, np.where(wrong, values + step, values))
        if moved is None:
            return None
        slope = moved - at
        power = total(slope * slope)
        more = np.where(power > 0.0, total(slope * (view.d - at)) / np.maximum(power, TINY), 0.0)
        landed = _landed(view, constant, values, np.where(wrong, more * step, 0.0), best)
        if landed is None:
            break
        values, at = landed
        best = rms(view.d - at)
        if best <= 0.3 * view.noise:
            break
    return (values, at, wrong) if best < 0.5 * view.error else None


def _landed(
    view: SampledTensors, constant: _Constant, values: Floats, by: Floats, best: float
) -> tuple[Floats, Floats] | None:
    """The values moved *by* that much, or by a part of it where that goes too far, and what the
    group gives then; None if nothing comes nearer to the device than *best*."""
    for part in (1.0, 0.5, 0.25):
        tried = values + part * by
        output = _run(view, constant, tried) if np.isfinite(tried).all() else None
        if output is not None and rms(view.d - output) < 0.99 * best:
            return tried, output
    return None


def _run(view: SampledTensors, constant: _Constant, values: Floats) -> Floats | None:
    rerun = view.case.reweigh
    trial: Mapping[str, Array] = {constant.name: constant.of(values)}
    (output,) = rerun([trial]) if rerun is not None else (None,)
    if output is None or output.shape != view.case.reference.shape:
        return None
    return view.made(output)


def _cause(
    view: SampledTensors,
    constant: _Constant,
    output: Floats,
    numbers: Array,
    own: Floats,
    values: Floats,
) -> Cause:
    single = constant.axis is None
    changed = [0] if single else numbers.tolist()
    listed = values_text(
        constant.name, [] if single else [[n] for n in changed], own[changed], values[changed]
    )
    wrong = float(np.count_nonzero(view.wrong)) / len(changed)
    sure = SURE if wrong >= FEW else GUESS
    stray = "" if wrong > 1 else ", or a flipped bit, or a value written by another op"
    return Cause(
        "wrong_constant",
        f"the device has exactly what {constant.op.type} {constant.op.name or constant.op.id} "
        f"gives with {listed}{stray}",
        sure,
        {
            "op": constant.op.id,
            "constant": constant.name,
            "words": listed,
            **({} if single else {"axis": constant.axis, "slices": changed[:64]}),
            "expected": own[changed][:64].tolist(),
            "values": values[changed][:64].tolist(),
            "left": view.left(output),
        },
    )


def _common(
    view: SampledTensors,
    constant: _Constant,
    output: Floats,
    how: str,
    own: Floats,
    changed: Floats,
) -> Cause:
    """The cause where all values of a constant changed alike: added to a variance, that is another
    epsilon."""
    op = constant.op
    number = float(np.median(changed - own)) if how == "larger" else _ratio(own, changed)
    label, words = "wrong_constant", f"all of {constant.name} {number:.5g} {how}"
    numbers = {name: value for name, value in op.attrs.items() if isinstance(value, float)}
    epsilon = next((value for name, value in numbers.items() if is_epsilon(name, value)), None)
    evidence: Evidence = {
        "op": op.id,
        "constant": constant.name,
        "by": number,
        "left": view.left(output),
    }
    if how == "larger" and epsilon is not None and (own >= 0.0).all():
        label = "wrong_epsilon"
        words += f", as with an epsilon of {epsilon + number:.3g} in place of {epsilon:.3g}"
    return Cause(
        label,
        f"the device has exactly what {op.type} {op.name or op.id} gives with {words}",
        SURE,
        {**evidence, "words": words},
    )


CAUSES = (CauseRule(changed_constant, CauseStage.LINE, 15, {"wrong_constant": LIKELY}),)
