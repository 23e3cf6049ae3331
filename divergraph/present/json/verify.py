"""The JSON of ``verify``."""

from __future__ import annotations

from divergraph.present.json.shapes import Json, finding_json, number
from divergraph.verification.verify_dump import Verification, WrongOutput


def verification_json(found: Verification) -> dict[str, Json]:
    """What ``verify --json`` prints."""
    return {
        "verdict": found.verdict.value,
        "dumped": found.dumped,
        "verified": found.verified,
        "wrong": [_output(each) for each in found.wrong],
        "suspects": [_output(each) for each in found.suspects],
        "changed": [finding_json(each) for each in found.changed],
        "inputs": found.inputs,
        "not_covered": dict(found.not_covered),
        "unjudged": {op: list(tensors) for op, tensors in found.unjudged.items()},
        "gap": found.gap or None,
        "types_not_covered": dict(found.types),
        "precision": str(found.arithmetic) or None,
        "executor": found.executor or None,
        "doubt": found.doubt or None,
        "remarks": list(found.remarks),
    }


def _output(each: WrongOutput) -> Json:
    return {
        "op": each.op,
        "type": each.type,
        "output": each.port,
        "error": number(each.split.introduced),
        "floor": number(each.split.floor),
        "suspicion": number(each.split.suspicion),
        "guilt": each.split.guilt.value,
        "cause": each.cause,
    }
