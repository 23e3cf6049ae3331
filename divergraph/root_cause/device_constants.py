"""Constants of the device's model: the scales it quantises with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from divergraph.execution.contract import Array, Executor, Piece
from divergraph.execution.installed import factory_for, open_executor
from graphstore.errors import ExecutionError
from graphstore.model import ModelGraph


@dataclass
class DeviceConstants:
    """Gives constants of the model in *path* by name, if something here can open it."""

    path: Path
    graph: ModelGraph
    _executor: Executor | None = None
    _opened: bool = False
    _known: dict[str, Array | None] = field(default_factory=dict)

    def value(self, name: str) -> Array | None:
        """The constant *name*; None if it cannot be had."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def __enter__(self) -> DeviceConstants:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._executor is not None:
            self._executor.close()

    def _read(self, name: str) -> Array | None:
        if not self._opened:
            self._opened = True
            self._executor = self._open()
        if self._executor is None:
            return None
        result = next(iter(self._executor.run_pieces([Piece(name, (), (name,))], lambda _: {})))
        return result.values.get(name)

    def _open(self) -> Executor | None:
        if factory_for(self.graph) is None:
            return None
        try:
            return open_executor(self.path, self.graph)
        except ExecutionError:
            return None  # then floors know nothing of its scales; the run itself goes on
