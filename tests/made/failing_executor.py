"""ONNX Runtime with trouble of its own: it raises what no executor should when it is to make
certain tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from divergraph.execute.contract import (
    DEFAULT_MEMORY,
    Executor,
    RunnableSubgraph,
    SubgraphResult,
    SubgraphValues,
)
from divergraph.execute.onnx.executor import OnnxRuntimeExecutor, OnnxRuntimeFactory
from graphstore.model import ModelGraph


@dataclass
class FailingFactory(OnnxRuntimeFactory):
    """Opens models that fail at the tensor ``fails``."""

    fails: str = ""

    def open(self, path: Path, graph: ModelGraph) -> Executor:
        return _Failing(path, graph, self.fails)


class _Failing(OnnxRuntimeExecutor):
    def __init__(self, path: Path, graph: ModelGraph, fails: str) -> None:
        super().__init__(path, graph)
        self.fails = fails

    def run_subgraphs(
        self,
        subgraphs: Iterable[RunnableSubgraph],
        values: SubgraphValues,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[SubgraphResult]:
        def checked() -> Iterator[RunnableSubgraph]:
            for piece in subgraphs:
                if self.fails in piece.outputs:
                    raise TypeError(f"{self.fails} holds texts")
                yield piece

        yield from super().run_subgraphs(checked(), values, memory=memory)
