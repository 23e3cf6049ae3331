"""Values between the parts of a run: in memory, the largest in scratch files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Array
from divergraph.execute.onnx.session import is_plain
from divergraph.files.npy_file import write_npy
from graphstore.own_folder import OwnFolder


class LiveValues:
    """Keeps values until they were taken as often as said, about *memory* bytes at most."""

    def __init__(self, memory: int, uses: Mapping[str, int]) -> None:
        self._memory = memory
        self._uses = dict(uses)
        self._held: dict[str, Array] = {}
        self._files: dict[str, Path] = {}
        self._folder: OwnFolder | None = None

    def keep(self, name: str, value: Array) -> None:
        """Keep *value* if it will be taken."""
        if self._uses.get(name, 0) > 0:
            self._held[name] = value
            self._spill()

    def never_let_go(self, name: str) -> None:
        """Keep the value of *name* until :meth:`close`, however often it is taken."""
        self._uses[name] = self._uses.get(name, 0) + 1

    def take(self, name: str, times: int = 1) -> Array:
        """The value kept under *name*, for so many of its uses; let go after its last one."""
        self._uses[name] -= times
        value = self.look(name)
        if self._uses[name] <= 0 and self._held.pop(name, None) is None:
            self._files[name].unlink()
        return value

    def look(self, name: str) -> Array:
        """The value kept under *name*, which stays."""
        if name in self._held:
            return self._held[name]
        value: Array = np.load(self._files[name], allow_pickle=False)
        return value

    def close(self) -> None:
        """Remove the scratch files."""
        self._held.clear()
        if self._folder is not None:
            self._folder.remove()

    def _spill(self) -> None:
        while sum(value.nbytes for value in self._held.values()) > self._memory:
            plain = [name for name, value in self._held.items() if is_plain(value)]
            if not plain:
                return  # texts and the like are never big
            name = max(plain, key=lambda tensor_name: self._held[tensor_name].nbytes)
            if self._folder is None:
                self._folder = OwnFolder("values")
            path = self._folder.path / f"{len(self._files)}.npy"
            write_npy(path, self._held.pop(name))
            self._files[name] = path
