"""``divergraph convert``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from divergraph.cli.options import opened, print_record
from divergraph.cli.say import say, say_beside, say_error, say_note
from divergraph.outcomes import BAD_INPUT, DISK_TROUBLE
from divergraph.text.words import counted
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import Side

if TYPE_CHECKING:
    from divergraph.api.answers import DumpsConverted, GraphConverted

_OF_DUMPS = ("npy", "bin", "txt", "msnpy")
_OF_GRAPHS = ("json", "ge_proto", "onnx-json", "dot", "graphml", "model-explorer")
_FAILURES_SHOWN = 10
_PATH_ENDINGS = (".om", ".onnx", ".pb", ".pbtxt", ".txt", ".json", ".meta", ".prototxt")


@click.command("convert")
@click.argument("graph", required=False)
@click.option("-d", "--dump_file", "dumps", metavar="PATH", help="Dump file, folder, or a,b,c.")
@click.option(
    "-o",
    "short",
    metavar="DIR|FILE",
    help="Where to write; a folder for dumps. A bare number is msaccucmp's --output-tensor.",
)
@click.option("-out", "--output", "out", metavar="DIR|FILE", help="The same.")
@click.option(
    "-t",
    "--type",
    "form",
    type=click.Choice((*_OF_DUMPS, *_OF_GRAPHS)),
    help="What to write; default for dumps: npy.",
)
@click.option("-f", "--format", "layout", metavar="LAYOUT", help="Bring tensors into NCHW, ND, …")
@click.option("-s", "--shape", metavar="1,3,8,8", help="Their shape then, if the dump has none.")
@click.option(
    "-i",
    "--input-tensor",
    "--input_tensor",
    "number_in",
    type=click.IntRange(0),
    metavar="N",
    help="Only this input.",
)
@click.option(
    "--output-tensor",
    "--output_tensor",
    "number_out",
    type=click.IntRange(0),
    metavar="N",
    help="Only this output.",
)
@click.option(
    "-v",
    "--version",
    "version",
    expose_value=False,
    type=click.Choice(("1", "2")),
    help="Accepted for old scripts; the version of a dump is detected.",
)
@click.option("--side", type=click.Choice([side.value for side in Side]), help="Graph of a run.")
@click.option("--store", metavar="DIR|URL", help="GRAPH is a run or graph of this store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def convert_command(
    graph: str | None,
    dumps: str | None,
    short: str | None,
    out: str | None,
    form: str | None,
    layout: str | None,
    shape: str | None,
    number_in: int | None,
    number_out: int | None,
    side: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Write dumps as arrays, or GRAPH in another tool's format.

    \b
    divergraph convert -d DUMP -o DIR -t npy|bin|txt|msnpy
        [-f LAYOUT [-s SHAPE]] [--input-tensor N] [--output-tensor N]
    divergraph convert GRAPH -o FILE|DIR
        -t json|ge_proto|onnx-json|dot|graphml|model-explorer

    GRAPH is a graph file, or else a run or graph of the store.
    """
    if (graph is None) is (dumps is None):
        what = "nothing to convert" if graph is None else "a graph and dumps at once"
        raise InputError(what, hint="give -d with dump files; or a graph's file, a run or a graph")
    if short is not None and dumps is not None and short.isdecimal() and number_out is None:
        say_note(f"-o {short} is read as --output-tensor {short}, as msaccucmp does")
        number_out = int(short)
    elif short is not None:
        if out is not None:
            raise click.UsageError("-o and -out both say where to write")
        out = short
    if graph is not None:
        values = {"-f": layout, "-s": shape, "-i": number_in, "--output-tensor": number_out}
        wrong = [option for option, value in values.items() if value is not None]
        if wrong:
            raise InputError(f"{wrong[0]} is for dumps", hint="dumps are given with -d")
        converted = _graph(graph, form, out, side, store)
        _tell_graph(graph, form or "", converted, as_json)
        return 0
    if side is not None or store is not None:
        raise InputError("--side and --store are for graphs of a store, not for dumps")
    result = _dumps(dumps or "", form, out, layout, shape, number_in, number_out)
    _tell_dumps(result, as_json)
    if result.disk_failed:
        return DISK_TROUBLE.exit_code
    return BAD_INPUT.exit_code if result.failed else 0


def _dumps(
    dumps: str,
    form: str | None,
    out: str | None,
    layout: str | None,
    shape: str | None,
    number_in: int | None,
    number_out: int | None,
) -> DumpsConverted:
    from divergraph.api.convert import DumpForm, convert, dump_paths

    if form in _OF_GRAPHS:
        hint = f"dumps become {', '.join(_OF_DUMPS)}; a graph is given without -d"
        raise InputError(f"-t {form} is for graphs", hint=hint)
    if shape is not None and layout is None:
        raise InputError("-s needs -f", hint="say which layout to bring the tensors into")
    paths = dump_paths(dumps)
    if not paths:
        raise InputError("-d names no file or folder")
    return convert(
        paths,
        out or ".",
        cast("DumpForm", form or "npy"),
        layout=layout,
        shape=shape,
        input_number=number_in,
        output_number=number_out,
        progress=True,
    )


def _graph(
    graph: str, form: str | None, out: str | None, side: str | None, store: str | None
) -> GraphConverted:
    from divergraph.api.convert import GraphForm, convert

    if form is None or form in _OF_DUMPS:
        what = "say what to write with -t" if form is None else f"-t {form} is for dumps"
        raise InputError(what, hint=f"graphs become {', '.join(_OF_GRAPHS)}; dumps need -d")
    if out is None:
        raise InputError("say where to write with -o", hint="a file, or a folder")
    wanted = cast("GraphForm", form)
    if store is None and side is None and (os.path.lexists(graph) or not _may_be_a_name(graph)):
        return convert(graph, out, wanted)
    try:
        with opened(store) as opened_store:
            return convert(graph, out, wanted, store=opened_store, side=side or Side.DEVICE)
    except UnknownNameError as error:
        if store is not None or error.near:
            raise
        what = "no such file, and the store has no run or graph of this name"
        raise InputError(what, where=graph) from error


def _may_be_a_name(graph: str) -> bool:
    """False for what is a path only, though nothing is there: it is better said so."""
    return "/" not in graph and "\0" not in graph and Path(graph).suffix not in _PATH_ENDINGS


def _tell_graph(graph: str, form: str, converted: GraphConverted, as_json: bool) -> None:
    if as_json:
        print_record(converted, graph=graph, form=form)
        return
    for note in converted.notes:
        say_note(note)
    for path in converted.written:
        say_beside(f"wrote {path}")


def _tell_dumps(result: DumpsConverted, as_json: bool) -> None:
    if as_json:
        print_record(result)
    else:
        files = counted(result.files, "dump file")
        say(f"{result.folder}: {counted(len(result.written), 'file')} of {files}")
    for path, why in result.failed[:_FAILURES_SHOWN]:
        say_error(f"not converted: {path}: {' '.join(why.split())}")
    more = len(result.failed) - _FAILURES_SHOWN
    if more > 0:
        say_error(f"and {more} more, see convert_failed_file_list.txt")
