"""The JSON of what a team said: notes, baselines, and how runs stand against them."""

from __future__ import annotations

from divergraph.present.json.shapes import Json, record_json, row_json
from graphstore.model import Baseline, RunStanding
from graphstore.op_row import OpRow


def deleted_answer(name: str, gone: Baseline | None) -> dict[str, Json]:
    """What ``delete`` prints."""
    return {"deleted": name, "baseline_of": None if gone is None else gone.model}


def noted_row_json(row: OpRow) -> dict[str, Json]:
    """One op with what was written of it."""
    return {**row_json(row), "team_notes": [record_json(note) for note in row.notes]}


def standing_json(standing: RunStanding | None) -> Json:
    """How a run stands; null where its model has no baseline."""
    if standing is None:
        return None
    return {
        "run": standing.baseline,
        "standing": standing.standing.value,
        "changes": dict(standing.changes),
        "decides": standing.decides or None,
    }
