"""The JSON of ``gate``."""

from __future__ import annotations

from divergraph.ask.gate.passing import GateAnswer
from divergraph.present.declared_answer import answer_json
from divergraph.present.json.shapes import Json, verdict_json


def gate_json(answer: GateAnswer) -> dict[str, Json]:
    """What ``gate --json`` prints."""
    return {
        "run": answer.run.name,
        **verdict_json(answer.run),
        "baseline": answer.baseline,
        "passed": answer.passed,
        "matched": answer.matched,
        "missing": answer.missing,
        "worse": [answer_json(change) for change in answer.worse],
        "others": [answer_json(change) for change in answer.others],
        "accepted": [
            {"golden": one.golden, "reason": one.reason, "by": one.by, "at": one.at}
            for one in answer.accepted
        ],
        "wrote": answer.wrote or None,
    }
