"""Graphs and dumps below a folder that fit together, found by a process that can be ended."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphstore.errors import DivergraphError
from graphstore.own_python import own_environment, own_python

_SECONDS, _PATIENCE = 15.0, 45.0
"""How long it looks, and after how long it is ended if it hangs at one file."""


@dataclass(frozen=True, slots=True)
class NearbySide:
    """A graph with its dump."""

    graph: str
    dump: str
    tensors: int


@dataclass(frozen=True, slots=True)
class NearbyPair:
    """Two sides that fit together: ``shared`` of ``ops``."""

    golden: NearbySide
    device: NearbySide
    shared: int
    ops: int

    def texts(self) -> dict[str, str]:
        """What stands in the form of a comparison."""
        return {
            "golden": self.golden.graph,
            "golden_dump": self.golden.dump,
            "device": self.device.graph,
            "device_dump": self.device.dump,
        }


@dataclass(frozen=True, slots=True)
class Nearby:
    """What was found: pairs, how many graphs and dumps in all, why there may be more."""

    pairs: tuple[NearbyPair, ...] = ()
    graphs: int = 0
    dumps: int = 0
    cut: str = ""


class NearbySearch:
    """One search below *folder*; :meth:`stop` ends it from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.stopped = False

    def stop(self) -> None:
        """End it; what it found so far is lost."""
        with self._lock:
            self.stopped = True
            if self._process is not None:
                self._process.kill()

    def found(self) -> Nearby:
        """Look, and wait for what is found; nothing if it was stopped.

        Raises:
            DivergraphError: it cannot be done.
        """
        words = ["detect", "--pairs", ".", "--seconds", str(_SECONDS), "--json"]
        with self._lock:
            if self.stopped:
                return Nearby()
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                own_python("-m", "divergraph", *words),
                cwd=self._folder,
                env=own_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            answer, _ = self._process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return Nearby(cut="one file took too long")
        if self.stopped:
            return Nearby()
        try:
            (paths,) = json.loads(answer)["paths"]
        except (ValueError, KeyError) as error:
            raise DivergraphError("the search ended without an answer") from error
        return _nearby(paths, self._folder)


def _nearby(paths: Mapping[str, Any], folder: Path) -> Nearby:
    pairs = [_pair(pair, folder) for pair in paths["pairs"]]
    return Nearby(tuple(pairs), paths["graphs"], paths["dumps"], paths["cut"] or "")


def _pair(pair: Mapping[str, Any], folder: Path) -> NearbyPair:
    golden, device = (_side(pair[name], folder) for name in ("golden", "device"))
    return NearbyPair(golden, device, pair["shared"], pair["ops"])


def _side(side: Mapping[str, Any], folder: Path) -> NearbySide:
    graph, dump = (_from_here(folder / side[name]) for name in ("graph", "dump"))
    return NearbySide(graph, dump, side["tensors"])


def _from_here(path: Path) -> str:
    """*path* as one types it in the folder of this process."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
