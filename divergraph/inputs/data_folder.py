"""The data folder of precision_tool: where in it graphs, dumps, overflows and results lie.

    precision_data/npu/debug_0/{graph,dump/<time>}   the device; debug_1: a second run of it
    precision_data/tf/{dump,tf_debug,graph,checkpoints}
    precision_data/{overflow/dump,fusion,temp/vector_compare/<time>}

Older versions have ``graph/all`` and ``dump/{npu,cpu,overflow}``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from importers.fusion_result import FILE_NAME

DEFAULT = Path("precision_data")
DEVICE = "debug_0"
GRAPH, DUMP = f"npu/{DEVICE}/graph", f"npu/{DEVICE}/dump"
GOLDEN_DUMP, DEBUGGER, OVERFLOW, FUSION = "tf/dump", "tf/tf_debug", "overflow/dump", "fusion"

_OLD = "npu"
"""What the one device run of the old layout is called."""
_TIME = re.compile(r"\d{14}")
_DEBUG = re.compile(r"debug_\d+")
_BUILD = re.compile(r"ge_(?:proto|onnx)_.*\.(?:txt|pbtxt)")
_GOLDEN_GRAPHS = ("tf/graph", "tf/checkpoints", "tf", "")
_GRAPH_ENDINGS = (".meta", ".pb")
_OFFLINE = (".om", ".json")
_SESSION = "_tfdbg_"
_MOST = 10_000
"""Entries of a folder looked at; these folders have a few."""


@dataclass(frozen=True, slots=True)
class DeviceFiles:
    """What one run on the device left: its ``graph`` folder and its newest ``dump``."""

    name: str
    graph: Path | None
    dump: Path | None


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The parts of a data folder, None where there are none.

    ``golden_dump`` is the newest of several; ``results`` are tables of earlier comparisons.
    """

    root: Path
    devices: tuple[DeviceFiles, ...]
    golden_graph: Path | None
    golden_dump: Path | None
    overflow: Path | None
    fusion_result: Path | None
    results: tuple[Path, ...]

    @property
    def device(self) -> DeviceFiles:
        """The run to compare: the first that has something."""
        return self.devices[0] if self.devices else DeviceFiles(DEVICE, None, None)

    @property
    def missing(self) -> tuple[str, ...]:
        """What a comparison needs and is not here, in words and with its place."""
        wanted = {
            f"the golden graph (a .meta or .pb in {_GOLDEN_GRAPHS[0]})": self.golden_graph,
            f"the golden dump ({GOLDEN_DUMP} or {DEBUGGER})": self.golden_dump,
            f"the device's graph ({GRAPH})": self.device.graph,
            f"the device's dump ({DUMP})": self.device.dump,
        }
        return tuple(what for what, path in wanted.items() if path is None)


def data_folder(root: Path) -> DataFolder | None:
    """The data folder at *root*; None if it is not laid out as one."""
    devices = tuple(_devices(root))
    golden_dump = _golden_dump(root)
    overflow = _first(_filled(root / name) for name in (OVERFLOW, "dump/overflow"))
    has_data = overflow is not None or (golden_dump is not None and _is_laid_out(root))
    if not has_data and (not devices or _has_graphs_alone(root, devices)):
        return None
    fusion = (
        root / FUSION / FILE_NAME,
        *(folder / FILE_NAME for folder in _graph_folders(devices)),
    )
    return DataFolder(
        root,
        devices,
        _golden_graph(root),
        golden_dump,
        _newest_time(overflow),
        _first(path if path.is_file() else None for path in fusion),
        tuple(_results(root / "temp" / "vector_compare")),
    )


def _has_graphs_alone(root: Path, devices: tuple[DeviceFiles, ...]) -> bool:
    """Whether all there is are graph files in ``graph``, where anybody may have put them."""
    return devices == (DeviceFiles(_OLD, root / "graph", None),)


def _is_laid_out(root: Path) -> bool:
    return any((root / name).is_dir() for name in ("tf/dump", "tf/tf_debug", "dump/cpu"))


def _devices(root: Path) -> Iterator[DeviceFiles]:
    npu = root / "npu"
    for name in sorted(name for name in _folders(npu) if _DEBUG.fullmatch(name)):
        graph, dump = npu / name / "graph", npu / name / "dump"
        files = DeviceFiles(name, _graph_folder(graph), _newest_time(_filled(dump)))
        if files.graph is not None or files.dump is not None:
            yield files
    old = (_first(map(_graph_folder, (root / "graph" / "all", root / "graph"))), root / "dump/npu")
    dump_there = _newest_time(_filled(old[1]))
    if old[0] is not None or dump_there is not None:
        yield DeviceFiles(_OLD, old[0], dump_there)


def _graph_folders(devices: Iterable[DeviceFiles]) -> Iterator[Path]:
    return (
        device.graph if device.graph.is_dir() else device.graph.parent
        for device in devices
        if device.graph is not None
    )


def _graph_folder(folder: Path) -> Path | None:
    """The folder with the graph files: this one, or the newest of those right in it; of offline
    models the newest file."""
    if any(_BUILD.fullmatch(name) for name in _names(folder)):
        return folder
    files = [
        folder / name for name in _names(folder) if name.endswith(_OFFLINE) and name != FILE_NAME
    ]
    if files:
        return max(files, key=lambda path: path.stat().st_mtime)
    inner = sorted(_folders(folder), key=lambda name: (folder / name).stat().st_mtime, reverse=True)
    return _first(_graph_folder(folder / name) for name in inner)


def _golden_dump(root: Path) -> Path | None:
    for name in (GOLDEN_DUMP, "dump/cpu", "tf"):
        if any(name.endswith(".npy") for name in _names(root / name)):
            return root / name
    debugger = root / DEBUGGER
    if any(name.startswith(_SESSION) for name in _names(debugger)):
        return debugger
    sessions = sorted(_folders(debugger))
    return debugger / sessions[-1] if sessions else None


def _golden_graph(root: Path) -> Path | None:
    for name in _GOLDEN_GRAPHS:
        folder = root / name
        for ending in _GRAPH_ENDINGS:
            if names := [name for name in _names(folder) if name.endswith(ending)]:
                return max((folder / name for name in names), key=lambda path: path.stat().st_mtime)
    return None


def _newest_time(folder: Path | None) -> Path | None:
    """The newest of the times a dump folder holds; itself if it has none."""
    if folder is None:
        return None
    times = sorted(name for name in _folders(folder) if _TIME.fullmatch(name))
    return folder / times[-1] if times else folder


def _results(folder: Path) -> Iterator[Path]:
    for time in sorted(_folders(folder), reverse=True):
        names = (name for name in _names(folder / time) if name.endswith(".csv"))
        yield from (folder / time / name for name in sorted(names))


def _first(paths: Iterable[Path | None]) -> Path | None:
    return next((path for path in paths if path is not None), None)


def _filled(folder: Path) -> Path | None:
    return folder if _names(folder) else None


def _names(folder: Path) -> list[str]:
    return _entries(folder, folders_only=False)


def _folders(folder: Path) -> list[str]:
    return _entries(folder, folders_only=True)


def _entries(folder: Path, *, folders_only: bool) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            listed = (entry for entry, _ in zip(entries, range(_MOST), strict=False))
            return [entry.name for entry in listed if not folders_only or entry.is_dir()]
    except OSError:
        return []  # what cannot be listed is not there for us
