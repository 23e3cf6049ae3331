"""Find the executor for a model among the plug-ins that are installed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from divergraph.execute.child.executor import open_in_child
from divergraph.execute.child.process import CHILDREN
from divergraph.execute.contract import (
    ConfinedFactory,
    Executor,
    ExecutorFactory,
    OptionFactory,
    PartialFactory,
)
from graphstore.errors import ExecutionError, InputError
from graphstore.model import ModelGraph

ENTRY_POINT_GROUP = "divergraph.executors"
ENGINE_VARIABLE = "DIVERGRAPH_ENGINE"
"""The environment variable that names the factory to take for the models it accepts."""


def open_executor(
    path: Path, graph: ModelGraph, options: Mapping[str, str] | None = None, engine: str = ""
) -> Executor:
    """The executor of the model behind *path*, of which *graph* was read.

    *options* are for the framework's factory (see its ``options``); None if values will come from
    dumps. *engine* is the name of the factory to take; else the one that ``DIVERGRAPH_ENGINE``
    names if it accepts the model, else the one that covers it.

    Raises:
        InputError: the framework has no such option, or the option no such value; or no factory
            is called as ``DIVERGRAPH_ENGINE`` says.
        ExecutionError: no executor runs this framework here (names the missing extra), or
            the framework refuses the model.
    """
    factory = factory_for(graph, options, engine)
    if factory is None and graph.has_guessed_edges:
        raise ExecutionError(
            "a recorded run cannot be run from its inputs to its outputs, only call by call",
            where=str(path),
            hint="divergraph roles RUN says what each call adds, submodel cuts calls out",
        )
    if factory is None:
        raise ExecutionError(
            f"nothing here runs {graph.framework} models of format {graph.format}",
            where=str(path),
            hint="ONNX, TensorFlow and Caffe models can be run",
        )
    return open_by(factory, path, graph, options)


def open_by(
    factory: ExecutorFactory, path: Path, graph: ModelGraph, options: Mapping[str, str] | None
) -> Executor:
    """The model opened by *factory*, in a process of its own where that is possible; as
    ``open_executor``."""
    if CHILDREN and isinstance(factory, ConfinedFactory) and all(map(find_spec, factory.packages)):
        return open_in_child(factory, path, graph, options)
    return open_here(factory, path, graph, options)


def open_here(
    factory: ExecutorFactory,
    path: Path,
    graph: ModelGraph,
    options: Mapping[str, str] | None,
) -> Executor:
    """The model opened by *factory* in this very process; as ``open_executor``."""
    try:
        return _opened(factory, path, graph, options)
    except ImportError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None  # Ctrl-C while a compiled package was starting
        raise ExecutionError(
            f"running {graph.framework} models needs a package that is not installed: {error}",
            where=str(path),
            hint=f"pip install 'divergraph[{factory.extra}]'" if factory.extra else "",
        ) from error


def factory_for(
    graph: ModelGraph, options: Mapping[str, str] | None = None, engine: str = ""
) -> ExecutorFactory | None:
    """The factory that runs *graph*: of those that accept it, one that is installed and covers it
    comes first, and of several one that needs no extra. One that has not all *options* comes
    after those that have."""
    fitting = [factory for factory in factories() if factory.accepts(graph)]
    if engine:
        fitting = [factory for factory in fitting if factory.name == engine]
    else:
        preferred = _preferred()
        fitting = [factory for factory in fitting if factory.name == preferred] or fitting

    there = [factory for factory in fitting if _is_installed(factory)]
    if len(there) == 1:  # what it covers need not be found out
        return there[0]

    def rank(factory: ExecutorFactory) -> tuple[bool, bool, str]:
        options_known = factory.options if isinstance(factory, OptionFactory) else {}
        lacks = not set(options or ()) <= set(options_known)
        partial = isinstance(factory, PartialFactory) and not factory.covers(graph, options)
        return lacks, partial, factory.extra

    return min(there or fitting, key=rank, default=None)


def _is_installed(factory: ExecutorFactory) -> bool:
    packages = factory.packages if isinstance(factory, ConfinedFactory) else ()
    return all(map(find_spec, packages))


def _preferred() -> str:
    """The factory the user prefers, or nothing.

    Raises:
        InputError: there is none of that name.
    """
    name = os.environ.get(ENGINE_VARIABLE, "")
    names = [factory.name for factory in factories()]
    if name and name not in names:
        raise InputError(
            f"{ENGINE_VARIABLE} is {name!r}, which runs nothing here",
            hint=f"there are: {', '.join(names)}",
        )
    return name


def _opened(
    factory: ExecutorFactory,
    path: Path,
    graph: ModelGraph,
    options: Mapping[str, str] | None,
) -> Executor:
    if options is None or not (options or isinstance(factory, OptionFactory)):
        return factory.open(path, graph)
    options_known = factory.options if isinstance(factory, OptionFactory) else {}
    unknown = [name for name in options if name not in options_known]
    if unknown or not isinstance(factory, OptionFactory):
        listed = ", ".join(options_known) or "none"
        raise InputError(
            f"running {graph.framework} models takes no {unknown[0].replace('_', '-')!r}",
            where=str(path),
            hint=f"there are: {listed.replace('_', '-')}",
        )
    return factory.open_with(path, graph, options)


@cache
def factories() -> tuple[ExecutorFactory, ...]:
    """All factories, by the names of their entry points."""
    entries = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name)
    return tuple(entry.load()() for entry in entries)
