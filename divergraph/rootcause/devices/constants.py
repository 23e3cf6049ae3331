"""Constants of the device's model, such as the scales it quantises with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from divergraph.execute.contract import Array, Executor, RunnableSubgraph
from divergraph.execute.installed import factory_for, open_executor
from divergraph.rootcause.devices.quantisers import DEQUANTISING
from graphstore.errors import ExecutionError
from graphstore.model import ModelGraph


@dataclass
class DeviceConstants:
    """Reads constants of the model in *path* by name, if an executor here can open it."""

    path: Path
    graph: ModelGraph
    _known: dict[str, Array | None] = field(default_factory=dict)

    def value(self, name: str) -> Array | None:
        """The constant *name* in its own shape and dtype; None if it cannot be read."""
        if name not in self._known:
            # A model may have a thousand scales: reading all of them at once is one run, not many.
            scales = [] if self._known else self._scales()
            self._read(dict.fromkeys((name, *scales)))
        return self._known[name]

    def _scales(self) -> Iterator[str]:
        """The names of the scales and zero points the device dequantises with."""
        for op in self.graph.ops:
            if op.type in DEQUANTISING:
                yield from (ref.tensor for ref in op.inputs[1:] if ref is not None)

    def __enter__(self) -> DeviceConstants:
        return self

    def __exit__(self, *exc: object) -> None:
        if "_executor" in self.__dict__ and self._executor is not None:
            self._executor.close()

    def _read(self, names: Iterable[str]) -> None:
        self._known.update(dict.fromkeys(names))
        if self._executor is not None:
            subgraphs = [RunnableSubgraph(name, (), (name,)) for name in names]
            for result in self._executor.run_subgraphs(subgraphs, lambda _: {}):
                self._known[result.key] = result.values.get(result.key)

    @cached_property
    def _executor(self) -> Executor | None:
        if factory_for(self.graph) is None:
            return None
        try:
            return open_executor(self.path, self.graph)
        except ExecutionError:
            return None  # the analysis goes on with unknown scales, which widen the floors
