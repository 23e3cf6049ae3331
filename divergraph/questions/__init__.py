"""What the front ends ask: one function per question, plain values as answers.

The command line, the Python API and the terminal UI call these and nothing below them,
so they cannot disagree.
"""

from divergraph.questions.analysed import Analysis, EntryMismatch, read_analysis
from divergraph.questions.answers import (
    CurvePoint,
    ModuleRow,
    OpDetail,
    Overview,
    ReasonGroup,
    TensorRow,
    UnmatchedOp,
    UnmatchedOps,
)
from divergraph.questions.details import lineage, op_detail, unmatched
from divergraph.questions.facts import load_facts, op_rows, resolve_op
from divergraph.questions.next_dump import NextDump
from divergraph.questions.origin_answers import OriginAnswer, OriginsAnswer, origins
from divergraph.questions.overview import overview
from divergraph.questions.reasons import reason_groups
from divergraph.questions.recurring import Recurring, RecurringAnswer, recurring
from divergraph.questions.role_table import RoleTable, roles
from divergraph.questions.run_changes import ChangeKind, OpChange, RunChanges, compare_runs
from divergraph.questions.trace_answers import Cut, Trace, TraceStep, Way, WayStep
from divergraph.questions.traces import ops_between, trace
from graphstore.open_store import open_store

__all__ = [
    "Analysis",
    "ChangeKind",
    "CurvePoint",
    "Cut",
    "EntryMismatch",
    "ModuleRow",
    "NextDump",
    "OpChange",
    "OpDetail",
    "OriginAnswer",
    "OriginsAnswer",
    "Overview",
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
    "Way",
    "WayStep",
    "compare_runs",
    "lineage",
    "load_facts",
    "op_detail",
    "op_rows",
    "open_store",
    "ops_between",
    "origins",
    "overview",
    "read_analysis",
    "reason_groups",
    "recurring",
    "resolve_op",
    "roles",
    "trace",
    "unmatched",
]
