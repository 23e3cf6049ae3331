"""Dumps as arrays, graphs in the formats of other tools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args, overload

from divergraph.api.arguments import AnyPath, side_of
from divergraph.api.progress import ProgressOption, telling
from divergraph.api.store import AnyStore, opened_for_keeping
from divergraph.conversion import DumpsConverted, GraphConverted
from divergraph.conversion.dump_files import DumpRequest, DumpType, convert_dumps, parse_paths
from divergraph.conversion.graph_files import (
    GraphFormat,
    convert_file,
    convert_stored,
    output_place,
    reads_as_graph,
)
from divergraph.conversion.relayout import check_layout, parse_shape
from graphstore.errors import InputError
from graphstore.model import Side
from importers.archives import refuse_archive

DumpForm: TypeAlias = Literal["npy", "bin", "txt", "msnpy"]
GraphForm: TypeAlias = Literal["json", "ge_proto", "onnx-json", "dot", "graphml", "model-explorer"]


@overload
def convert(
    source: AnyPath | Sequence[AnyPath],
    output: AnyPath,
    to: DumpForm = "npy",
    *,
    layout: str | None = None,
    shape: Sequence[int] | str | None = None,
    input_number: int | None = None,
    output_number: int | None = None,
    progress: ProgressOption = None,
) -> DumpsConverted: ...
@overload
def convert(
    source: AnyPath,
    output: AnyPath,
    to: GraphForm,
    *,
    store: AnyStore | None = None,
    side: Side | str = "device",
) -> GraphConverted: ...
def convert(
    source: AnyPath | Sequence[AnyPath],
    output: AnyPath,
    to: str = "npy",
    *,
    layout: str | None = None,
    shape: Sequence[int] | str | None = None,
    input_number: int | None = None,
    output_number: int | None = None,
    store: AnyStore | None = None,
    side: Side | str = "device",
    progress: ProgressOption = None,
) -> DumpsConverted | GraphConverted:
    """Write dump files as arrays, or a graph in another tool's format.

    For dump files or folders *to* is ``npy``, ``bin``, ``txt`` or ``msnpy``, and *output* a folder;
    *layout* (``NCHW``, ``ND``, ...) brings tensors into a layout, *shape* is their shape in it if
    the dump has none, *input_number* or *output_number* takes one tensor of each file.

    For a graph's file *to* is ``json``, ``ge_proto``, ``onnx-json``, ``dot``, ``graphml`` or
    ``model-explorer``, and *output* a file or folder. With *store*, *source* is the name of a run,
    of which *side* is taken, or of an imported graph.

    Raises:
        InputError: the source cannot be converted so, or *output* cannot be written.

    >>> import divergraph as dg
    >>> found = dg.convert(dg.demo_data().golden, "lenet.graphml", "graphml")
    >>> found.ops, [path.name for path in found.written]
    (381, ['lenet.graphml'])
    """
    if to in get_args(GraphForm):
        if not isinstance(source, str | os.PathLike):
            raise InputError("graphs are converted one by one")
        place = output_place(os.fspath(output))
        if store is None:
            return convert_file(Path(source), GraphFormat(to), place)
        name = os.fspath(source)
        return convert_stored(
            opened_for_keeping(store), name, GraphFormat(to), place, side_of(side)
        )
    if to not in get_args(DumpForm):
        forms = (*get_args(DumpForm), *get_args(GraphForm))
        raise InputError(f"to={to!r}: not known", hint=f"one of {', '.join(forms)}")
    paths = (source,) if isinstance(source, str | os.PathLike) else tuple(source)
    request = DumpRequest(
        tuple(map(Path, paths)),
        Path(output),
        DumpType(to),
        None if layout is None else check_layout(layout),
        _shape(shape),
        input_number,
        output_number,
    )
    check_dumps(request.paths)
    with telling(progress) as reporting:
        return convert_dumps(request, reporting)


def dump_paths(text: str) -> tuple[Path, ...]:
    """The paths in *text*: one, or several with commas between them."""
    return parse_paths(text)


def check_dumps(paths: Sequence[Path]) -> None:
    """Refuse a single file that is a graph.

    Raises:
        InputError: it is one.
    """
    if len(paths) == 1:
        refuse_archive(paths[0], "a dump")
    if len(paths) == 1 and paths[0].is_file() and reads_as_graph(paths[0]):
        hint = f"divergraph convert {paths[0].name} -t json -out FILE, without -d"
        raise InputError("this is a graph, no dump", where=str(paths[0]), hint=hint)


def _shape(dims: Sequence[int] | str | None) -> tuple[int, ...] | None:
    if dims is None:
        return None
    return parse_shape(dims) if isinstance(dims, str) else tuple(dims)
