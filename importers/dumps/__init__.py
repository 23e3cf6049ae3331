"""Reads dumped tensors: finds the folder, indexes its files by op, reads arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importers.dumps.arrays.golden import scan_golden_dumps
    from importers.dumps.ascend.file import DeviceFile, read_device_file
    from importers.dumps.ascend.index import scan_device_dumps
    from importers.dumps.ascend.overflow import record_json
    from importers.dumps.ascend.values import DumpHeader, HeaderTensor, RawBlock
    from importers.dumps.detect import (
        DumpKind,
        FoundDump,
        detect_dumps,
        detect_tensor_file,
        list_dumps,
    )
    from importers.dumps.folder import (
        ANY_DUMP,
        DumpChoice,
        DumpFolder,
        find_dump_folder,
        model_names,
    )
    from importers.dumps.index import DumpIndex, DumpProblem, OverflowRecord
    from importers.dumps.read import read_array
    from importers.dumps.scan import scan_dumps
    from importers.dumps.tree import is_dump_name

__all__ = [
    "ANY_DUMP",
    "DeviceFile",
    "DumpChoice",
    "DumpFolder",
    "DumpHeader",
    "DumpIndex",
    "DumpKind",
    "DumpProblem",
    "FoundDump",
    "HeaderTensor",
    "OverflowRecord",
    "RawBlock",
    "detect_dumps",
    "detect_tensor_file",
    "find_dump_folder",
    "is_dump_name",
    "list_dumps",
    "model_names",
    "read_array",
    "read_device_file",
    "record_json",
    "scan_device_dumps",
    "scan_dumps",
    "scan_golden_dumps",
]

_HOMES = {
    "ANY_DUMP": "importers.dumps.folder",
    "DeviceFile": "importers.dumps.ascend.file",
    "DumpChoice": "importers.dumps.folder",
    "DumpFolder": "importers.dumps.folder",
    "DumpHeader": "importers.dumps.ascend.values",
    "DumpIndex": "importers.dumps.index",
    "DumpKind": "importers.dumps.detect",
    "DumpProblem": "importers.dumps.index",
    "FoundDump": "importers.dumps.detect",
    "HeaderTensor": "importers.dumps.ascend.values",
    "OverflowRecord": "importers.dumps.index",
    "RawBlock": "importers.dumps.ascend.values",
    "detect_dumps": "importers.dumps.detect",
    "detect_tensor_file": "importers.dumps.detect",
    "find_dump_folder": "importers.dumps.folder",
    "is_dump_name": "importers.dumps.tree",
    "list_dumps": "importers.dumps.detect",
    "model_names": "importers.dumps.folder",
    "read_array": "importers.dumps.read",
    "read_device_file": "importers.dumps.ascend.file",
    "record_json": "importers.dumps.ascend.overflow",
    "scan_device_dumps": "importers.dumps.ascend.index",
    "scan_dumps": "importers.dumps.scan",
    "scan_golden_dumps": "importers.dumps.arrays.golden",
}


def __getattr__(name: str) -> Any:
    # Loaded at first use: a worker that reads one kind of dump loads that kind only.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
