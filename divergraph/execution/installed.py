"""Find the executor for a model among the plug-ins that are installed."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from divergraph.execution.contract import Executor, ExecutorFactory
from graphstore.errors import ExecutionError
from graphstore.model import ModelGraph

ENTRY_POINT_GROUP = "divergraph.executors"


def open_executor(path: Path, graph: ModelGraph) -> Executor:
    """The executor of the model behind *path*, of which *graph* was read.

    Raises:
        ExecutionError: no executor runs this framework here (names the missing extra), or
            the framework refuses the model.
    """
    factory = factory_for(graph)
    if factory is None:
        raise ExecutionError(
            f"nothing here runs {graph.framework} models of format {graph.format}",
            where=str(path),
            hint="can be run: ONNX models, and TensorFlow's with the extra divergraph[tensorflow]",
        )
    try:
        return factory.open(path, graph)
    except ImportError as error:
        raise ExecutionError(
            f"running {graph.framework} models needs a package that is not installed: {error}",
            where=str(path),
            hint=f"pip install 'divergraph[{factory.extra}]'" if factory.extra else "",
        ) from error


def factory_for(graph: ModelGraph) -> ExecutorFactory | None:
    """The first factory, by entry point name, that accepts *graph*."""
    return next((factory for factory in _factories() if factory.accepts(graph)), None)


@cache
def _factories() -> tuple[ExecutorFactory, ...]:
    found = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name)
    return tuple(entry.load()() for entry in found)
