"""Reads dumped tensors: finds the folder, indexes its files by op, reads arrays."""

from importers.dumps.ascend import scan_device_dumps
from importers.dumps.detect import DumpKind, FoundDump, detect_dumps, list_dumps
from importers.dumps.device_file import DeviceFile, read_device_file
from importers.dumps.folder import ANY_DUMP, DumpChoice, DumpFolder, find_dump_folder, model_names
from importers.dumps.golden import scan_golden_dumps
from importers.dumps.header import DumpHeader, HeaderTensor, RawBlock
from importers.dumps.index import DumpIndex, DumpProblem, OverflowRecord
from importers.dumps.overflow import record_json
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
