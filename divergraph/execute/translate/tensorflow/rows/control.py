"""Branches of the old kind, and ops that only order others."""

from __future__ import annotations

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.table import (
    ARRAY,
    CONTROL,
    FUNCTIONS,
    ROWS,
    STATE,
)


@ROWS.row("Switch", "RefSwitch", source=CONTROL)
def switch(p: Piece) -> Outputs:
    """Its input on one of two sides: the first if the condition is false."""
    return [None, p.name(0)] if p.value(1).item() else [p.name(0), None]


@ROWS.row("Merge", "RefMerge", source=CONTROL, joins=True)
def merge(p: Piece) -> Outputs:
    """The input that was made, and which one it is."""
    at = next(at for at in range(len(p)) if p.has(at))
    return [p.name(at), p.const(np.array(at, np.int32))]


@ROWS.row(
    *("Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond"),
    source=CONTROL,
)
def around_a_loop(p: Piece) -> Outputs:
    """Hands its input on, into a turn of a loop or out of it."""
    return [p.name(0)]


CALLS = (
    *("While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"),
    *("PartitionedCall", "StatefulPartitionedCall"),
)


@ROWS.row(*CALLS, source=FUNCTIONS)
def runs_functions(p: Piece) -> Outputs:
    """Runs functions of the model: its ops are unrolled, so none comes here but by itself."""
    raise NotTranslatedError(f"{p.op.type} without its function")


@ROWS.row("Const", source=ARRAY)
def constant_of_a_branch(p: Piece) -> Outputs:
    """A constant that exists only if its branch is taken: the second input tells."""
    return [p.name(0)]


@ROWS.row("NoOp", "Assert", "ControlTrigger", source=CONTROL)
def nothing(_: Piece) -> Outputs:
    """Orders ops, or ends a run that went wrong; gives nothing."""
    return []


ASKS = ("VarIsInitializedOp", "IsVariableInitialized")


@ROWS.row(*ASKS, source=STATE)
def has_value(p: Piece) -> Outputs:
    """Whether a variable has a value: before a step all have."""
    return [p.const(np.array(True))]
