"""What was found in files and folders, as JSON: graphs, dumps, pairs of them that fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from divergraph.present.json.shapes import Json

if TYPE_CHECKING:
    from divergraph.inputs.data_folder import DataFolder
    from divergraph.inputs.detection import Findings
    from divergraph.inputs.fitting_pairs import FittingPairs, FittingSide
    from importers.dumps.contract import FoundDump


def findings_json(found: Findings) -> Json:
    """One entry of ``detect``."""
    return {
        "path": str(found.path),
        "graphs": [
            {
                "path": str(graph.path),
                "format": graph.format,
                "sure": graph.confidence > 1,
                "reason": graph.reason,
            }
            for graph in found.graphs
        ],
        "dumps": [dump_json(dump) for dump in found.dumps],
        "problem": found.problem or None,
        "passed_over": found.passed_over,
        "data_folder": None if found.data_folder is None else _data_folder_json(found.data_folder),
    }


def _data_folder_json(found: DataFolder) -> Json:
    return {
        "golden_graph": _path(found.golden_graph),
        "golden_dump": _path(found.golden_dump),
        "devices": [
            {"name": each.name, "graph": _path(each.graph), "dump": _path(each.dump)}
            for each in found.devices
        ],
        "overflow": _path(found.overflow),
        "fusion_result": _path(found.fusion_result),
        "results": [str(path) for path in found.results],
        "missing": list(found.missing),
    }


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)


def pairs_json(found: FittingPairs) -> Json:
    """One entry of ``detect --pairs``."""
    return {
        "path": str(found.folder),
        "pairs": [
            {
                "golden": _side_json(pair.golden),
                "device": _side_json(pair.device),
                "shared": pair.shared,
                "ops": pair.ops,
            }
            for pair in found.pairs
        ],
        "graphs": len(found.graphs),
        "dumps": len(found.dumps),
        "cut": found.cut or None,
    }


def _side_json(side: FittingSide) -> Json:
    return {"graph": str(side.graph), "dump": str(side.dump), "tensors": side.tensors}


def dump_json(dump: FoundDump) -> dict[str, Json]:
    """One entry of ``dumps``."""
    return {
        "path": str(dump.path),
        "kind": dump.kind,
        "sure": dump.confidence > 1,
        "reason": dump.reason,
        "files": dump.files,
        "time": dump.time or None,
        "rank": dump.rank or None,
        "model": dump.model or None,
        "model_id": dump.model_id or None,
        "step": dump.step or None,
    }
