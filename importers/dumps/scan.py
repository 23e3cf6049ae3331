"""One folder, whatever kinds of dump files it holds."""

from __future__ import annotations

from pathlib import Path

from graphstore.model import DumpTensorRef, ModelGraph
from importers.dumps.ascend import scan_device_listing
from importers.dumps.golden import NPY, scan_golden_listing
from importers.dumps.index import DumpIndex, TensorKey, list_folder


def scan_dumps(folder: Path, graph: ModelGraph) -> DumpIndex:
    """The tensors of all dump files directly in *folder*, by op of *graph*.

    ``.npy`` files are read by the golden rules, all others by the device's. A tensor
    found as both counts by its later timestamp.

    Raises:
        InputError: the folder is missing or may not be read.
    """
    listing = list_folder(folder)
    device = scan_device_listing(listing, graph)
    if not any(name.endswith(NPY) for name in (*listing.files, *listing.others)):
        return device
    golden = scan_golden_listing(listing, graph)
    tensors: dict[TensorKey, DumpTensorRef] = dict(golden.tensors)
    superseded = [*device.superseded, *golden.superseded]
    for key, ref in device.tensors.items():
        other = tensors.get(key)
        if other is None or other.timestamp <= ref.timestamp:
            tensors[key] = ref
    problems = (*device.problems, *golden.problems)
    return DumpIndex(
        tensors=tensors,
        problems=tuple(sorted(problems, key=lambda found: (found.path, found.op or ""))),
        unmatched=tuple(sorted((*device.unmatched, *golden.unmatched))),
        files=device.files + golden.files,
        graph_inputs=golden.graph_inputs,
        superseded=tuple(sorted(superseded)),
        debug_files=device.debug_files,
    )
