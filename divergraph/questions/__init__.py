"""What the front ends ask: one function per question, plain values as answers.

The command line, the Python API and the terminal UI call these and nothing below them,
so they cannot disagree.
"""

from divergraph.questions.answers import (
    CurvePoint,
    ModuleRow,
    OpDetail,
    Overview,
    ReasonGroup,
    TensorRow,
    Trace,
    TraceStep,
    UnmatchedOp,
    UnmatchedOps,
)
from divergraph.questions.details import lineage, op_detail, unmatched
from divergraph.questions.facts import load_facts, op_rows, resolve_op
from divergraph.questions.overview import overview
from divergraph.questions.reasons import reason_groups
from divergraph.questions.traces import ops_between, trace
from graphstore.open_store import open_store

__all__ = [
    "CurvePoint",
    "ModuleRow",
    "OpDetail",
    "Overview",
    "ReasonGroup",
    "TensorRow",
    "Trace",
    "TraceStep",
    "UnmatchedOp",
    "UnmatchedOps",
    "lineage",
    "load_facts",
    "op_detail",
    "op_rows",
    "open_store",
    "ops_between",
    "overview",
    "reason_groups",
    "resolve_op",
    "trace",
    "unmatched",
]
