"""An op inside of a group that gave another shape, though the output has the right one: a mean over
all positions, or a broadcast, hides how many there were."""

from __future__ import annotations

from collections.abc import Mapping

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, SampledTensors
from divergraph.rootcause.causes.reruns.shape_trials import ShapeFault, trials_of
from divergraph.rootcause.causes.reruns.shapes import LARGEST, MOST_TRIES
from graphstore.model import AttrValue, Op


def wrong_shape_inside(view: SampledTensors) -> Cause | None:
    """The group with another attribute or constant of one of its ops gives what the device has."""
    case = view.case
    rerun, reweigh, inside = case.rerun, case.reweigh, case.inside
    if rerun is None or reweigh is None or inside is None or case.device.size > LARGEST:
        return None
    if not view.visible or not inside.steps:
        return None

    def again(op: Op, attrs: Mapping[str, AttrValue], values: Mapping[str, Array]) -> Array | None:
        return next(iter(reweigh([values])), None) if values else rerun(op, attrs)

    values = {step.tensor: step.value for step in inside.steps}
    fault = ShapeFault(
        case.device,
        case.reference,
        case.ops,
        {**values, **case.inputs},
        case.constants,
        again,
        fed_alike=False,
    )
    tries = 0
    for op in case.ops:
        for trial in trials_of(op, fault):
            tries += 1
            if tries > MOST_TRIES:
                return None
            output = again(op, trial.attrs, trial.values)
            if view.explained_by(output):
                changed = dict(trial.attrs) or list(trial.values)
                return view.cause_of_rerun(
                    op, "wrong_setting", trial.words, output, attributes=changed
                )
    return None


CAUSES = (CauseRule(wrong_shape_inside, CauseStage.RERUN, 20),)
