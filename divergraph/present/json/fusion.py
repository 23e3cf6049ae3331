"""The JSON of ``divergraph fusion``."""

from __future__ import annotations

from divergraph.ask.fusion.fused_ops import FusedOp, FusionAnswer
from divergraph.ask.fusion.trial import FusionTrial
from divergraph.present.json.shapes import Json


def fusion_json(run: str, found: FusionAnswer) -> dict[str, Json]:
    """The passes that made ops, and the file that switches them off."""
    return {
        "run": run,
        "ops": [_op_json(each) for each in found.ops],
        "in_effect": [
            {
                "name": each.name,
                "section": each.section.value,
                "effected": each.effected,
                "matched": each.matched,
            }
            for each in found.in_effect
        ],
        "switch": found.switch,
    }


def _op_json(op: FusedOp) -> dict[str, Json]:
    return {
        "op": op.op,
        "type": op.type,
        "guilty": op.guilty,
        "originals": list(op.originals),
        "passes": [{"name": each.name, "section": each.section.value} for each in op.passes],
    }


def trial_json(found: FusionTrial) -> dict[str, Json]:
    """What became of each guilty op in the run without fusion."""
    return {
        "on": found.on,
        "off": found.off,
        "is_the_pass": found.is_the_pass,
        "sentence": found.sentence,
        "ops": [
            {
                **_op_json(each.fused),
                "verdict": each.verdict.value,
                "unfused": list(each.unfused),
                "still_guilty": list(each.guilty),
                "sentence": each.sentence,
            }
            for each in found.ops
        ],
    }
