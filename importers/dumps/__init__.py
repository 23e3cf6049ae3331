"""Reads dumped tensors: finds the folder, indexes its files by op, reads arrays."""

from importers.dumps.ascend import scan_device_dumps
from importers.dumps.folder import DumpFolder, find_dump_folder, model_names
from importers.dumps.golden import scan_golden_dumps
from importers.dumps.index import DumpIndex, DumpProblem
from importers.dumps.read import read_array
from importers.dumps.scan import scan_dumps

__all__ = [
    "DumpFolder",
    "DumpIndex",
    "DumpProblem",
    "find_dump_folder",
    "model_names",
    "read_array",
    "scan_device_dumps",
    "scan_dumps",
    "scan_golden_dumps",
]
