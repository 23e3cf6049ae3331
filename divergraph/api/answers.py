"""The types of the answers, for annotations and ``isinstance``; loaded when they are asked for.

``divergraph.answers.Blame`` and the like. All are frozen dataclasses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from divergraph.ask.advisor.advisor import Advice
    from divergraph.ask.answers import OpDetail, Overview
    from divergraph.ask.origin_answers import OriginAnswer
    from divergraph.ask.questions.compare_runs import RunChanges
    from divergraph.ask.questions.recurring import RecurringAnswer
    from divergraph.ask.questions.roles import RoleTable
    from divergraph.ask.questions.unmatched import UnmatchedOps
    from divergraph.ask.tensor_values import TensorValues
    from divergraph.ask.trace_answers import Trace
    from divergraph.blame.attribution import Blame, KeepListEntry
    from divergraph.comparison.many_runs import ManyRuns, PlaceRun
    from divergraph.consistency.checks import ConsistencyReport
    from divergraph.conversion import DumpsConverted, GraphConverted
    from divergraph.dump_diff.diff_dumps import DiffResult, PairDiff
    from divergraph.dump_diff.elements import Element
    from divergraph.dump_diff.error_picture import ErrorMap, ErrorPicture, ValueScatter
    from divergraph.dump_diff.single_pair import CloseLook
    from divergraph.dump_diff.tensor_file import FileTensor, TensorFile
    from divergraph.dump_diff.value_parts import ValueHistogram, ValueSlice
    from divergraph.golden_capture.capture_model import CaptureResult
    from divergraph.inputs.detection import Findings
    from divergraph.metrics.inspection import ErrorHistogram
    from divergraph.submodel.check import PartCheck
    from divergraph.submodel.minimize.minimize_run import MinimalPart, Minimized
    from divergraph.submodel.minimize.verdicts import Probe
    from divergraph.submodel.selection import BoundaryTensor, Refusal, Selection
    from divergraph.submodel.smallest_boundary import Suggestion
    from divergraph.verification.verify_dump import Verification, WrongOutput
    from graphstore.contract import GraphInfo, QueryResult, RunData
    from graphstore.model import Comparison, Finding, LineageLink, ModelGraph, RunAnalysis
    from graphstore.op_row import OpRow

_WHERE = {
    "divergraph.ask.tensor_values": ("TensorValues",),
    "divergraph.ask.advisor.advisor": ("Advice",),
    "divergraph.ask.answers": ("OpDetail", "Overview"),
    "divergraph.ask.origin_answers": ("OriginAnswer",),
    "divergraph.ask.questions.compare_runs": ("RunChanges",),
    "divergraph.ask.questions.recurring": ("RecurringAnswer",),
    "divergraph.ask.questions.roles": ("RoleTable",),
    "divergraph.ask.questions.unmatched": ("UnmatchedOps",),
    "divergraph.ask.trace_answers": ("Trace",),
    "divergraph.blame.attribution": ("Blame", "KeepListEntry", "WhatIf"),
    "divergraph.comparison.many_runs": ("ManyRuns", "PlaceRun"),
    "divergraph.consistency.checks": ("ConsistencyReport",),
    "divergraph.conversion": ("DumpsConverted", "GraphConverted"),
    "divergraph.dump_diff.diff_dumps": ("DiffResult", "PairDiff"),
    "divergraph.dump_diff.elements": ("Element",),
    "divergraph.dump_diff.error_picture": ("ErrorMap", "ErrorPicture", "ValueScatter"),
    "divergraph.dump_diff.single_pair": ("CloseLook",),
    "divergraph.dump_diff.tensor_file": ("FileTensor", "TensorFile"),
    "divergraph.dump_diff.value_parts": ("ValueHistogram", "ValueSlice"),
    "divergraph.golden_capture.capture_model": ("CaptureResult",),
    "divergraph.inputs.detection": ("Findings",),
    "divergraph.metrics.inspection": ("ErrorHistogram",),
    "divergraph.submodel.check": ("PartCheck",),
    "divergraph.submodel.minimize.minimize_run": ("MinimalPart", "Minimized"),
    "divergraph.submodel.minimize.verdicts": ("Probe",),
    "divergraph.submodel.selection": ("BoundaryTensor", "Refusal", "Selection"),
    "divergraph.submodel.smallest_boundary": ("Suggestion",),
    "divergraph.verification.verify_dump": ("Verification", "WrongOutput"),
    "graphstore.contract": ("GraphInfo", "QueryResult", "RunData"),
    "graphstore.model": ("Comparison", "Finding", "LineageLink", "ModelGraph", "RunAnalysis"),
    "graphstore.op_row": ("OpRow",),
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Advice",
    "Blame",
    "BoundaryTensor",
    "CaptureResult",
    "CloseLook",
    "Comparison",
    "ConsistencyReport",
    "DiffResult",
    "DumpsConverted",
    "Element",
    "ErrorHistogram",
    "ErrorMap",
    "ErrorPicture",
    "FileTensor",
    "Finding",
    "Findings",
    "GraphConverted",
    "GraphInfo",
    "KeepListEntry",
    "LineageLink",
    "ManyRuns",
    "MinimalPart",
    "Minimized",
    "ModelGraph",
    "OpDetail",
    "OpRow",
    "OriginAnswer",
    "Overview",
    "PairDiff",
    "PartCheck",
    "PlaceRun",
    "Probe",
    "QueryResult",
    "RecurringAnswer",
    "Refusal",
    "RoleTable",
    "RunAnalysis",
    "RunChanges",
    "RunData",
    "Selection",
    "Suggestion",
    "TensorFile",
    "TensorValues",
    "Trace",
    "UnmatchedOps",
    "ValueHistogram",
    "ValueScatter",
    "ValueSlice",
    "Verification",
    "WrongOutput",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
