"""The JSON of origins, traces, roles and several runs; see docs/reference/json.md."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from divergraph.ask.advisor.advisor import Advice
from divergraph.ask.judging import Judging
from divergraph.ask.origin_answers import OriginAnswer, OriginsAnswer
from divergraph.ask.trace_answers import ErrorPath, Trace
from divergraph.present.advice_text import detection_type, operator_index
from divergraph.present.declared_answer import answer_json
from divergraph.present.json.shapes import (
    Json,
    finding_json,
    number,
    origin_json,
    plain_json,
    record_json,
    row_json,
    split_json,
    verdict_json,
)
from graphstore.model import Note, Reckoning
from graphstore.op_row import OpRow


def origins_json(answer: OriginsAnswer, *, explain: bool = False) -> dict[str, Json]:
    """What ``origins --json`` prints; *explain* adds how suspicions were reckoned."""
    found: dict[str, Json] = {
        "run": answer.run.name,
        **verdict_json(answer.run),
        "origins": [_noted_json(one) for one in answer.origins],
        "suspects": [_noted_json(one) for one in answer.suspects],
        **answer_json(Judging.of(answer.run)),
    }
    if explain:
        found["reckonings"] = [_reckoning(each) for each in answer.run.analysis.reckonings]
    return found


def _reckoning(found: Reckoning) -> Json:
    return {
        **record_json(found, {"port": "output", "least": "least_floor"}),
        "adjustments": [
            record_json(each, {"before": "floor_before", "after": "floor_after"})
            for each in found.adjustments
        ],
    }


def trace_json(run: str, trace: Trace) -> dict[str, Json]:
    """What ``trace --json`` prints."""
    return {
        "run": run,
        "op": trace.op,
        "ops": len(trace.steps),
        "measured": trace.measured,
        "over": trace.over,
        "outputs": list(trace.outputs),
        "healed": list(trace.healed),
        "steps": [
            {
                "distance": step.distance,
                **row_json(step.row),
                **_notes_json(trace.notes.get(step.row.id, ())),
            }
            for step in trace.steps
        ],
        "paths": [path_json(path) for path in trace.paths],
    }


def path_json(path: ErrorPath) -> dict[str, Json]:
    """A path of an error, op by op, and where all paths to its end can be cut."""
    return {
        "to": path.to,
        "error": number(path.error),
        "between": path.ops,
        "steps": [
            {
                "op": step.row.id,
                "state": None if step.row.state is None else step.row.state.value,
                "error": _row_error(step.row),
                "gain": number(step.row.gain),
                "role": None if step.row.split is None else step.row.split.role.value,
                "joins": list(step.joins),
                "other_origins": list(step.other_origins),
                "diluted": step.diluted,
                "healed": step.healed,
            }
            for step in path.steps
        ],
        "cuts": [record_json(cut) for cut in path.cuts],
        "bisect": None if path.middle is None else path.middle.op,
    }


def _row_error(row: OpRow) -> float | None:
    return None if row.metrics is None else number(row.metrics.relative_euclidean_distance)


def _noted_json(one: OriginAnswer) -> Json:
    shape = judged_origin_json(one)
    assert isinstance(shape, dict)
    return {**shape, **_notes_json(one.notes)}


def _notes_json(notes: Iterable[Note]) -> dict[str, Json]:
    return {"team_notes": [record_json(note) for note in notes]}


def judged_origin_json(one: OriginAnswer) -> Json:
    """An origin or suspect, with why it is one."""
    shape = origin_json(one.origin)
    assert isinstance(shape, dict)
    return {
        **shape,
        "guilt": one.guilt.value,
        "sentence": one.sentence,
        "fault_of": None if one.fault_of is None else one.fault_of.value,
        "split": split_json(one.split),
        "group": list(one.group),
        "fused": one.in_one,
        "next_dump": plain_json(one.next_dump),
        "share": number(one.share),
        "findings": [finding_json(item) for item in one.findings],
    }


def advice_json(run: str, advice: Advice, written: Path | None) -> dict[str, Json]:
    """What ``advise --json`` prints; *written* is the summary's file, if there is one."""
    return {
        "run": run,
        "detection_type": detection_type(advice.first),
        "operator_index": operator_index(advice.first),
        "problem": not advice.quiet,
        "findings": [finding_json(finding) for finding in advice.findings],
        "file": None if written is None else str(written),
    }
