"""The questions front ends ask: one function each, with plain values as answers.

The command line, the Python API and the terminal UI call these and nothing below them, so they
cannot disagree.
"""

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
from divergraph.ask.overview import first_look, overview
from divergraph.ask.reasons import reason_groups
from divergraph.ask.recurring import Recurring, RecurringAnswer, recurring
from divergraph.ask.role_table import RoleTable, roles
from divergraph.ask.run_changes import ChangeKind, OpChange, RunChanges, compare_runs
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
    "compare_runs",
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
    "recurring",
    "resolve_op",
    "roles",
    "trace",
    "unmatched",
]
