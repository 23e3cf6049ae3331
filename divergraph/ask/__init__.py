"""The questions front ends ask: one function each, with plain values as answers.

The command line, the Python API and the terminal UI call these and nothing below them, so they
cannot disagree.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from divergraph.ask.answers import (
        CurvePoint,
        CurvePoints,
        ModuleRow,
        OpDetail,
        Overview,
        ReasonGroup,
        TensorRow,
        UnmatchedOp,
        UnmatchedOps,
    )
    from divergraph.ask.details import lineage, op_detail, unmatched
    from divergraph.ask.error_paths.path_steps import PathStep
    from divergraph.ask.facts import load_facts, op_rows, resolve_op
    from divergraph.ask.origin_answers import OriginAnswer, OriginsAnswer, origins
    from divergraph.ask.overview_answers import first_look, overview
    from divergraph.ask.questions.compare_runs import ChangeKind, OpChange, RunChanges
    from divergraph.ask.questions.recurring import Recurring, RecurringAnswer
    from divergraph.ask.questions.roles import RoleTable
    from divergraph.ask.reasons import reason_groups
    from divergraph.ask.trace_answers import Cut, ErrorPath, Trace, TraceStep
    from divergraph.ask.traces import ops_between, trace
    from divergraph.rootcause.next_dump import NextDump
    from graphstore.open_store import open_store

__all__ = [
    "ChangeKind",
    "CurvePoint",
    "CurvePoints",
    "Cut",
    "ErrorPath",
    "ModuleRow",
    "NextDump",
    "OpChange",
    "OpDetail",
    "OriginAnswer",
    "OriginsAnswer",
    "Overview",
    "PathStep",
    "ReasonGroup",
    "Recurring",
    "RecurringAnswer",
    "RoleTable",
    "RunChanges",
    "TensorRow",
    "Trace",
    "TraceStep",
    "UnmatchedOp",
    "UnmatchedOps",
    "first_look",
    "lineage",
    "load_facts",
    "op_detail",
    "op_rows",
    "open_store",
    "ops_between",
    "origins",
    "overview",
    "reason_groups",
    "resolve_op",
    "trace",
    "unmatched",
]

_WHERE = {
    "CurvePoint": "divergraph.ask.answers",
    "CurvePoints": "divergraph.ask.answers",
    "ModuleRow": "divergraph.ask.answers",
    "OpDetail": "divergraph.ask.answers",
    "Overview": "divergraph.ask.answers",
    "ReasonGroup": "divergraph.ask.answers",
    "TensorRow": "divergraph.ask.answers",
    "UnmatchedOp": "divergraph.ask.answers",
    "UnmatchedOps": "divergraph.ask.answers",
    "lineage": "divergraph.ask.details",
    "op_detail": "divergraph.ask.details",
    "unmatched": "divergraph.ask.details",
    "PathStep": "divergraph.ask.error_paths.path_steps",
    "load_facts": "divergraph.ask.facts",
    "op_rows": "divergraph.ask.facts",
    "resolve_op": "divergraph.ask.facts",
    "OriginAnswer": "divergraph.ask.origin_answers",
    "OriginsAnswer": "divergraph.ask.origin_answers",
    "origins": "divergraph.ask.origin_answers",
    "first_look": "divergraph.ask.overview_answers",
    "overview": "divergraph.ask.overview_answers",
    "reason_groups": "divergraph.ask.reasons",
    "Recurring": "divergraph.ask.questions.recurring",
    "RecurringAnswer": "divergraph.ask.questions.recurring",
    "RoleTable": "divergraph.ask.questions.roles",
    "ChangeKind": "divergraph.ask.questions.compare_runs",
    "OpChange": "divergraph.ask.questions.compare_runs",
    "RunChanges": "divergraph.ask.questions.compare_runs",
    "Cut": "divergraph.ask.trace_answers",
    "ErrorPath": "divergraph.ask.trace_answers",
    "Trace": "divergraph.ask.trace_answers",
    "TraceStep": "divergraph.ask.trace_answers",
    "ops_between": "divergraph.ask.traces",
    "trace": "divergraph.ask.traces",
    "NextDump": "divergraph.rootcause.next_dump",
    "open_store": "graphstore.open_store",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: the first frame of the terminal UI needs a few words only.
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
