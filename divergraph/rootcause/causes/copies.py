"""Outputs that hold another tensor: an input (the op did nothing), or an unrelated one."""

from __future__ import annotations

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, Floats, SampledTensors, rms
from divergraph.rootcause.causes.limits import ENOUGH, FEW, GUESS, LEFT, LIKELY, SURE
from divergraph.rootcause.causes.orders import same_values
from divergraph.rootcause.values import correlation

_UNRELATED = 0.3
"""Correlations below this say that the values have nothing to do with each other."""
_CUTTING = frozenset(("Clip", "Max", "Maximum", "ClipByValue", "HardSigmoid"))
"""Ops other than Relus that may turn every negative value into 0."""


def missing_op(view: SampledTensors) -> Cause | None:
    """The output equals an input, though the op should have changed it."""
    for name, values in view.case.inputs.items():
        output = _as_output(view, values)
        if output is None or rms(output - view.r) <= 0.5 * view.error:
            continue
        if not view.fits(output):
            continue
        what = " and ".join(dict.fromkeys(view.case.types)) or "op"
        was = "were" if " and " in what else "was"
        return Cause(
            "missing_op",
            f"the output equals the input {name}: the {what} {was} not computed",
            SURE if view.d.size >= FEW else GUESS,
            {"input": name, "left": view.left(output), "elements": int(view.case.device.size)},
        )
    return _without_relu(view)


def _without_relu(view: SampledTensors) -> Cause | None:
    """Negative values where a Relu in the group should have made zeros."""
    kinds = view.case.types
    if not any("relu" in kind.lower() or "Fused" in kind or kind in _CUTTING for kind in kinds):
        return None
    cut = view.r == 0.0
    count = int(np.count_nonzero(cut))
    if count < 3 or float(view.r.min()) < 0.0 or cut.all() or view.case.inputs == {}:
        return None
    below = view.d[cut]
    outside = rms(view.e[~cut]) * np.sqrt(float((~cut).sum()))
    if (below < -view.noise).mean() < 0.5 or (below <= view.noise).mean() < 0.98:
        return None
    if outside > 0.15 * np.sqrt(view.energy):
        return None
    slope = _leak(view, cut)
    how = f"as if it were a LeakyRelu of slope {slope:.3g}" if slope else "the Relu is missing"
    return Cause(
        "wrong_activation",
        f"{int((below < 0).sum())} values are negative where a Relu gives 0, positive ones are "
        f"right: {how}",
        SURE if count >= FEW else GUESS,
        {"negative": int((below < 0).sum()), "slope": slope},
    )


def _leak(view: SampledTensors, cut: np.ndarray) -> float | None:
    for values in view.case.inputs.values():
        output = _as_output(view, values)
        if output is None:
            continue
        x, y = output[cut], view.d[cut]
        power = float(np.sum(x * x))
        slope = float(np.sum(x * y)) / power if power else 0.0
        if 0.0 < slope < 0.95 and rms(y - slope * x) <= LEFT * rms(y):
            return slope
    return None


def stale_tensor(view: SampledTensors) -> Cause | None:
    """The output holds exactly the values of another dumped tensor."""
    case = view.case
    if case.others is None or view.error <= 0.05 * view.size:
        return None
    names = tuple(case.others(case.device))
    if not names or same_values(view):
        return None  # the right values in another order are not another tensor's
    more = f" (and {len(names) - 1} others)" if len(names) > 1 else ""
    return Cause(
        "stale_tensor",
        f"the output holds the values of another tensor, {names[0]}{more}: a stale or wrong "
        "buffer was read",
        SURE,
        {"same_as": list(names[:8]), "elements": int(case.device.size)},
    )


def unrelated_values(view: SampledTensors) -> Cause | None:
    """Values without any relation to the expected ones."""
    if view.d.size < ENOUGH or view.spread <= 2.0 * view.noise:
        return None
    link = correlation(view.d, view.r)
    ranked = correlation(*(_ranks(values) for values in (view.d, view.r)))
    if abs(link) >= _UNRELATED or abs(ranked) >= _UNRELATED:
        return None
    return Cause(
        "unrelated_values",
        f"the values have nothing to do with the expected ones (correlation {link:.2f}): "
        + ("other weights, or stale" if view.case.linear else "stale")
        + ", uninitialised or wrong memory",
        GUESS if view.case.linear else min(view.sure, LIKELY),
        {"correlation": link, "rank_correlation": ranked},
    )


def _ranks(values: Floats) -> Floats:
    flat = values.reshape(-1)[:: max(1, values.size // 50_000)]
    ranks = np.empty(flat.size)
    ranks[np.argsort(flat, kind="stable")] = np.arange(flat.size)
    return ranks


def _as_output(view: SampledTensors, values: Array) -> Floats | None:
    """An input in the shape of the output and sampled like it; None if the sizes differ."""
    if values.dtype.kind not in "fiu" or values.size != view.case.reference.size:
        return None
    return view.sample(values.reshape(view.case.reference.shape))


CAUSES = (
    CauseRule(stale_tensor, CauseStage.FUNCTION, 30, {"stale_tensor": SURE}),
    CauseRule(unrelated_values, CauseStage.VAGUE, 30, {"unrelated_values": LIKELY}, of_a_part=True),
)
