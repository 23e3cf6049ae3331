"""The JSON of origins, traces, roles and several runs; see docs/reference/json.md."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from divergraph.ask.advisor.advisor import Advice
from divergraph.ask.origin_answers import OriginAnswer, OriginsAnswer
from divergraph.ask.role_table import RoleTable
from divergraph.ask.run_changes import OpChange, RunChanges
from divergraph.ask.trace_answers import ErrorPath, Trace
from divergraph.present.advice_text import detection_type, operator_index
from divergraph.present.json.shapes import (
    Json,
    number,
    origin_json,
    plain_json,
    record_json,
    row_json,
    split_json,
    verdict_json,
)
from graphstore.model import ErrorSplit, Finding, Guilt, Note, Reckoning, Role, Run, TensorIO
from graphstore.op_row import OpRow


def origins_json(answer: OriginsAnswer, *, explain: bool = False) -> dict[str, Json]:
    """What ``origins --json`` prints; *explain* adds how suspicions were reckoned."""
    found: dict[str, Json] = {
        "run": answer.run.name,
        **verdict_json(answer.run),
        "origins": [_noted_json(one) for one in answer.origins],
        "suspects": [_noted_json(one) for one in answer.suspects],
        **analysis_json(answer.run),
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


def analysis_json(run: Run) -> dict[str, Json]:
    """How the run was judged."""
    analysis = run.analysis
    return {
        "method": run.method.value,
        "limits": {"suspect": number(analysis.suspect), "guilty": number(analysis.guilty)},
        "precision": str(analysis.arithmetic) or None,
        "executor": analysis.executor or None,
        "note": analysis.note or None,
        "entry_mismatches": [
            record_json(item, null=("op", "tensor", "relation")) for item in analysis.mismatches
        ],
    }


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


def finding_json(finding: Finding) -> dict[str, Json]:
    """A finding with the numbers behind it."""
    is_output = finding.io is TensorIO.OUTPUT
    return {
        "kind": finding.kind.value,
        "label": finding.label,
        "sentence": finding.sentence,
        "op": finding.op or None,
        "output": finding.port if is_output and finding.port >= 0 else None,
        "input": None if is_output else finding.port,
        "confidence": finding.confidence,
        "evidence": plain_json(finding.evidence),
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


def roles_json(run: str, table: RoleTable) -> dict[str, Json]:
    """What ``roles --json`` prints."""
    return {
        "run": run,
        "counts": {
            "roles": {role.value: table.roles.get(role, 0) for role in Role},
            "guilt": {guilt.value: table.guilt.get(guilt, 0) for guilt in Guilt},
        },
        "ops": [
            {
                "op": row.id,
                "type": row.type,
                "topo": row.topo,
                "split": split_json(row.split),
                **_notes_json(table.notes.get(row.id, ())),
            }
            for row in table.rows
        ],
        **analysis_json(table.run),
    }


def changes_json(changes: RunChanges) -> dict[str, Json]:
    """What ``compare-runs --json`` prints."""
    return {
        "old": changes.old.name,
        "new": changes.new.name,
        "method": changes.method.value,
        "matched": changes.matched,
        "only_old": changes.only_old,
        "only_new": changes.only_new,
        "newly_guilty": sum(change.newly_guilty for change in changes.changes),
        "changes": [change_json(change) for change in changes.changes],
        "notes": list(changes.notes),
    }


def change_json(change: OpChange) -> Json:
    """One entry of ``changes``."""
    return {
        "kind": change.kind.value,
        "op": change.op,
        "old_op": change.old_op,
        "golden": change.golden,
        "type": change.type,
        "times": number(change.times),
        "sentence": change.sentence,
        "old": _of_change(change.old, change.old_error),
        "new": _of_change(change.new, change.new_error),
        "regrouped": change.regrouped,
    }


def _of_change(split: ErrorSplit | None, error: float | None) -> Json:
    return {"error": number(error), "split": split_json(split)}
