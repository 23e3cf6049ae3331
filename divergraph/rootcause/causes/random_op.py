"""Ops that draw random numbers."""

from __future__ import annotations

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Cause, SampledTensors
from divergraph.rootcause.causes.limits import SURE
from graphstore.model import EvidenceValue

_DRAWS = (
    *("Random", "Multinomial", "Bernoulli", "Dropout", "TruncatedNormal", "Shuffle"),
    *("StatelessRandom", "DropOutGenMask", "DropOutDoMask"),
)


def random_op(view: SampledTensors) -> Cause | None:
    """The op draws random numbers, so the two sides cannot agree."""
    drawn = [op_type for op_type in view.case.types if op_type.startswith(_DRAWS)]
    if not drawn:
        return None
    zeros, nonzero = view.d == 0.0, (view.d != 0.0) & (view.r != 0.0)
    share = float(np.mean(zeros))
    if drawn[0].startswith(("Dropout", "DropOut")) and not 0.02 < share < 0.98:
        return None
    evidence: dict[str, EvidenceValue] = {"op_type": drawn[0], "zeros": share}
    if nonzero.any():
        evidence["gain_of_kept"] = float(np.median(view.d[nonzero] / view.r[nonzero]))
    return Cause(
        "random_op",
        f"{drawn[0]} draws random numbers, so the two sides differ: fix its seed, or remove it",
        SURE,
        evidence,
    )


CAUSES = (CauseRule(random_op, CauseStage.MISSING, 5, {"random_op": SURE, "unclassified": SURE}),)
