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
)

__all__ = [
    "CurvePoint",
    "ModuleRow",
    "OpDetail",
    "Overview",
    "ReasonGroup",
    "TensorRow",
    "Trace",
    "TraceStep",
]
