"""A run as SARIF 2.1.0 (OASIS): one result for each place an error starts at, for code scanning.

Servers follow a result over commits by its fingerprint, which stays while the golden model's ops
and the cause stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from divergraph.ask.gate.fingerprints import UNEXPLAINED, cause_of, fingerprint
from divergraph.ask.origin_answers import OriginAnswer
from divergraph.outcomes import gives_no_answer
from divergraph.present.run_report import RunReport
from divergraph.text.printable import printable
from divergraph.text.words import answers_text, verdict_text
from graphstore.model import Guilt, Run, Verdict

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_HOME = "https://github.com/divergraph/divergraph"
_FINGERPRINT = "divergraphFault/v1"


def sarif_report(report: RunReport) -> bytes:
    """The JSON. Origins are errors and suspects warnings, in a run that diverged; there are none
    in one that did not. The verdict stands in the properties of the run."""
    run = report.run
    answers: tuple[OriginAnswer, ...] = ()
    if run.verdict is Verdict.DIVERGED:
        answers = (*report.answer.origins, *report.answer.suspects)
    rules = sorted({cause_of(one) for one in answers})
    document = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "divergraph",
                        "informationUri": _HOME,
                        "version": run.version,
                        "rules": [_rule(name) for name in rules],
                    }
                },
                "results": [_result(report, one, rules.index(cause_of(one))) for one in answers],
                "invocations": [_invocation(run)],
                "properties": {
                    "run": printable(run.name),
                    "verdict": run.verdict.value,
                    "said": printable(verdict_text(run)),
                    **{name: printable(text) for name, text in answers_text(run).items()},
                },
            }
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def _invocation(run: Run) -> Mapping[str, Any]:
    """How the comparison ended. Where it gave no answer, a notification says why: a run without
    results would look like one without faults."""
    invocation: dict[str, Any] = {"executionSuccessful": run.verdict is not Verdict.NOT_COMPARED}
    if gives_no_answer(run.verdict):
        message = {"text": printable(verdict_text(run))}
        invocation["toolExecutionNotifications"] = [{"level": "error", "message": message}]
    return invocation


def _rule(cause: str) -> Mapping[str, Any]:
    words = cause.replace("_", " ")
    what = "An op adds more error than its arithmetic explains"
    description = what if cause == UNEXPLAINED else f"{what}: {words}"
    return {"id": cause, "shortDescription": {"text": f"{description}."}}


def _result(report: RunReport, one: OriginAnswer, rule: int) -> Mapping[str, Any]:
    origin = one.origin
    return {
        "ruleId": cause_of(one),
        "ruleIndex": rule,
        "level": "warning" if one.guilt is Guilt.SUSPECT else "error",
        "message": {"text": printable(one.sentence)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(report.golden_name)},
                    "region": {"startLine": 1},
                },
                "logicalLocations": list(_ops(one)),
            }
        ],
        "partialFingerprints": {_FINGERPRINT: fingerprint(one)},
        "rank": round(100.0 / max(origin.rank, 1), 3),
        "properties": {"op": printable(origin.op), "type": printable(origin.type)},
    }


def _ops(one: OriginAnswer) -> Iterable[Mapping[str, str]]:
    """The device op, then its originals."""
    yield {"name": printable(one.origin.op), "kind": "device op"}
    for name in dict.fromkeys(tensor.op for tensor in one.origin.golden):
        yield {"name": printable(name), "kind": "golden op"}


def _uri(name: str) -> str:
    """A model's name as a relative reference (RFC 3986)."""
    from urllib.parse import quote

    return quote(name) or "model"
