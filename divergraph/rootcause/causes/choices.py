"""Wrong names: indices, classes and booleans that differ, one by one.

By the time a cause is looked for, every choice that is as good as the right one has been taken for
it, so whatever still differs is wrong. No line is fitted to names, and no norm is told of them.
"""

from __future__ import annotations

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Cause, SampledTensors
from divergraph.rootcause.causes.limits import SURE
from divergraph.rootcause.choices.judging import are_names
from graphstore.model import EvidenceValue

_INDEXING = ("ArgM", "TopK", "NonZero", "NonMaxSuppression", "Where", "Unique")
"""How the types of ops begin whose integers are indices."""


def wrong_choices(view: SampledTensors) -> Cause | None:
    """So many indices, integers or booleans are wrong, and none of them is a tie."""
    case = view.case
    if not are_names(case.reference, case.types):
        return None
    wrong = np.flatnonzero(case.device.reshape(-1) != case.reference.reshape(-1))
    if not wrong.size:
        return None
    word = "integers"
    if case.reference.dtype.kind == "b":
        word = "booleans"
    elif any(op_type.startswith(_INDEXING) for op_type in case.types):
        word = "indices"
    place = [int(number) for number in np.unravel_index(wrong[0], case.reference.shape)]
    device_choice, right = (
        array.reshape(-1)[wrong[0]].item() for array in (case.device, case.reference)
    )
    evidence: dict[str, EvidenceValue] = {
        "wrong": wrong.size,
        "of": case.reference.size,
        "first_index": place,
        "given": device_choice,
        "right": right,
    }
    return Cause(
        "wrong_choices",
        f"{wrong.size} of {case.reference.size} {word} {'is' if wrong.size == 1 else 'are'} wrong, "
        f"none is a tie (the first, at {place}, is {device_choice} in place of {right})",
        SURE,
        evidence,
    )


CAUSES = (CauseRule(wrong_choices, CauseStage.LINE, 0, {"wrong_choices": SURE}),)
