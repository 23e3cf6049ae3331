"""precision_tool's interactive commands, each said by one or two of ours."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from divergraph.cli.precision_tool.place import ToolPlace
from divergraph.cli.precision_tool.sides import comparison, dump_files
from divergraph.cli.say import say_beside
from divergraph.outcomes import DIVERGED, FINE
from graphstore.errors import InputError

_Command = TypeVar("_Command", bound=Callable[..., Any])
_COSINE, _LISTED = 0.98, 3


@click.group("precision-tool", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    type=click.Path(path_type=Path, readable=False),
    default="precision_data",
    show_default=True,
    metavar="DIR",
    help="The data folder: npu/debug_0/{graph,dump}, tf/{dump,graph}, overflow, fusion.",
)
@click.option("--run", metavar="NAME", help="The run or graph meant; default: the folder's.")
@click.option("--store", metavar="DIR|URL", help="Where runs are kept, as for all commands.")
@click.pass_context
def precision_tool_command(
    ctx: click.Context, data: Path, run: str | None, store: str | None
) -> None:
    """Ask as in precision_tool; each command says on standard error what it is in Divergraph.

    In `divergraph shell` they work without the first two words.
    """
    ctx.obj = ToolPlace(data, store, run)


def _name(command: _Command) -> _Command:
    """Take the name as precision_tool does: behind ``-n`` or not."""
    option = click.option("-n", "name", metavar="NAME", help="The same as NAME.")
    return click.argument("given", required=False, metavar="[NAME]")(option(command))


_listed_option = click.option(
    "-l",
    "limit",
    type=click.IntRange(min=1),
    default=_LISTED,
    show_default=True,
    metavar="N",
    help="List N ops at most.",
)


def _one(typed: str | None, name: str | None, what: str) -> str:
    file_or_op = typed or name
    if file_or_op is None:
        raise click.UsageError(f"say which {what}")
    return file_or_op


@precision_tool_command.command("ac")
@click.option("-c", "compares", is_flag=True, help="Compare first.")
@_listed_option
@click.pass_obj
def ac(place: ToolPlace, compares: bool, limit: int) -> int:
    """Check everything: results, fusion, overflows, casts to integers."""
    code = comparison(place) if compares else FINE.exit_code
    target = place.target()
    code = max(code, place.ours("ops", target, "--where", f"cos<={_COSINE}", "--limit", limit))
    folder = place.folder
    result = ("--result", folder.fusion_result) if folder.fusion_result else ()
    code = max(code, place.ours("fusion", target, *result))
    if folder.overflow is not None and folder.device.graph is not None:
        code = max(code, overflows(place))
    return max(code, _casts(place))


def overflows(place: ToolPlace) -> int:
    """What the device recorded when a computation overflowed, by op."""
    folder = place.folder
    if folder.overflow is None or folder.device.graph is None:
        raise InputError("there is no overflow dump with a graph", where=str(place.data))
    return place.ours("consistency", folder.overflow, "--graph", folder.device.graph)


@precision_tool_command.command("cc")
@click.pass_obj
def cc(place: ToolPlace) -> int:
    """List casts to int32, which lose what is behind the point."""
    return _casts(place)


def _casts(place: ToolPlace) -> int:
    return place.ours("ops", place.target(), "--where", "type:Cast dtype:int32")


@precision_tool_command.command("fu")
@click.pass_obj
def fu(place: ToolPlace) -> int:
    """Name the fusion passes."""
    result = place.folder.fusion_result
    return place.ours("fusion", place.target(), *(("--result", result) if result else ()))


@precision_tool_command.command("ls")
@click.option("-n", "name", default="", metavar="TEXT", help="Part of the op's name.")
@click.option("-t", "type_", default="", metavar="TEXT", help="Part of its type.")
@click.option("-f", "fusion", default="", metavar="TEXT", help="Part of its fusion pass.")
@click.option("-k", "kernel", default="", metavar="TEXT", help="Part of its kernel's name.")
@click.pass_obj
def ls(place: ToolPlace, name: str, type_: str, fusion: str, kernel: str) -> None:
    """List ops by parts of names, types, passes, kernels."""
    from divergraph.cli.precision_tool.op_list import list_ops

    list_ops(place, name=name, kind=type_, fusion=fusion, kernel=kernel)


@precision_tool_command.command("ni")
@_name
@click.option("-g", "graph", metavar="GRAPH", help="The op of this graph or sub-graph.")
@click.option("-a", "everything", is_flag=True, help="With all attributes.")
@click.option("-s", "depth", type=click.IntRange(1, 100), metavar="DEPTH", help="Draw around it.")
@click.pass_obj
def ni(
    place: ToolPlace,
    given: str | None,
    name: str | None,
    graph: str | None,
    everything: bool,
    depth: int | None,
) -> int:
    """Show everything about one op."""
    from divergraph.cli.precision_tool.op_list import op_in_graph

    options = [*(["--all"] if everything else []), *(["--depth", depth] if depth else [])]
    target, op = place.target(), _one(given, name, "op")
    if graph is not None:
        op = op_in_graph(place, target, graph, op)
    return place.ours("op", target, op, *options)


@precision_tool_command.command("pt")
@_name
@click.option("-c", "_converts", is_flag=True, help="As always: write the .txt.")
@click.pass_obj
def pt(place: ToolPlace, given: str | None, name: str | None, _converts: bool) -> int:
    """Show a dump's values, and write them as text: beside an array."""
    path = place.file(_one(given, name, "file"))
    return place.ours("tensor", path, "--txt", place.text_folder(path))


@precision_tool_command.command("cp")
@click.argument("left")
@click.argument("right")
@click.option("-n", "_named", is_flag=True, help="May stand before the names.")
@click.option(
    "-p",
    "count",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="Show the first N bad elements.",
)
@click.option("-s", "saves", is_flag=True, help="Write both as text, too.")
@click.option(
    "-al",
    "atol",
    type=float,
    default=0.001,
    metavar="A",
    help="Bad: off by more than A + R * |right|.",
)
@click.option("-rl", "rtol", type=float, default=0.001, metavar="R", help="See -al.")
@click.pass_obj
def cp(
    place: ToolPlace,
    left: str,
    right: str,
    _named: bool,
    count: int,
    saves: bool,
    atol: float,
    rtol: float,
) -> int:
    """Compare two tensors, the device's first."""
    paths = [place.file(left), place.file(right)]
    for path in paths if saves else ():
        place.ours("tensor", path, "--txt", place.text_folder(path))
    return place.ours("diff", *paths, "-p", count, "-al", atol, "-rl", rtol, keeps=False)


@precision_tool_command.command("vc")
@click.option("-lt", "left", metavar="DIR", help="The device's dump.")
@click.option("-rt", "right", metavar="DIR", help="The golden dump.")
@click.option("-g", "graph", metavar="FILE", help="The device's graph.")
@click.pass_obj
def vc(place: ToolPlace, left: str | None, right: str | None, graph: str | None) -> int:
    """Compare the dumps of the folder, or those given."""
    if left is None and right is None:
        return comparison(place)
    if left is None or right is None:
        raise click.UsageError("-lt and -rt go together")
    if graph is None:
        return place.ours("diff", left, right, keeps=False)
    return comparison(place, device=Path(graph), device_dump=Path(left), golden_dump=Path(right))


@precision_tool_command.command("vcs")
@click.option("-f", "file", metavar="FILE", help="An earlier result_*.csv, opened first.")
@click.option("-c", "cosine", type=float, default=_COSINE, show_default=True, metavar="X")
@_listed_option
@click.pass_obj
def vcs(place: ToolPlace, file: str | None, cosine: float, limit: int) -> int:
    """List ops whose cosine is not above X, and where the error starts."""
    code = FINE.exit_code
    if file is None:
        target = place.target()
    else:
        target = Path(file).stem
        code = place.ours("open", place.file(file), "--run", target, "--replace")
        if code not in (FINE.exit_code, DIVERGED.exit_code):
            return code
    worst = ("ops", target, "--where", f"cos<={cosine:g}", "--limit", limit)
    code = max(code, place.ours(*worst))
    return max(code, place.ours("origins", target))


@precision_tool_command.command("dc")
@_name
@click.option("-f", "layout", metavar="FORMAT", help="Bring tensors into NCHW, ND, …")
@click.option("-o", "--output", metavar="DIR", help="Where to write.")
@click.pass_obj
def dc(
    place: ToolPlace, given: str | None, name: str | None, layout: str | None, output: str | None
) -> int:
    """Write dump files of an op, one file, or all of the device's dump as .npy."""
    paths = dump_files(place, given or name)
    folder = output or place.data / "temp" / "decode" / "dump_convert"
    layouts = ("-f", layout) if layout else ()
    files = ",".join(map(str, paths))
    return place.ours("convert", "-d", files, "-out", folder, "-t", "npy", *layouts, keeps=False)


@precision_tool_command.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND")
def run(words: tuple[str, ...]) -> int:
    """Run a command of the system's shell."""
    line = words[0] if len(words) == 1 else subprocess.list2cmdline(words)
    return system(line)


def system(line: str) -> int:
    """Run *line* in the system's shell, and say how it ended if not well."""
    from divergraph.api.files.job_setup import end_text

    try:
        code = subprocess.run(line, shell=True, check=False).returncode  # noqa: S602 - the user's own
    except KeyboardInterrupt:
        return 130
    if message := end_text(code):
        say_beside(message)
    return code


@precision_tool_command.command("tf_dump")
@click.argument("line", metavar="COMMAND")
@click.pass_obj
def tf_dump(place: ToolPlace, line: str) -> int:
    """Run a script on the CPU and dump through TensorFlow's debugger."""
    return place.ours("tf-dump", "--data", place.data, line)


@precision_tool_command.command("npu_dump")
@click.argument("line", metavar="COMMAND")
@click.pass_obj
def npu_dump(place: ToolPlace, line: str) -> int:
    """Run a script on the device and dump graphs and tensors."""
    return place.ours("npu-dump", "--data", place.data, line)


@precision_tool_command.command("npu_overflow")
@click.argument("line", metavar="COMMAND")
@click.pass_obj
def npu_overflow(place: ToolPlace, line: str) -> int:
    """Run a script on the device and find overflows."""
    return place.ours("npu-overflow", "--data", place.data, line, keeps=False)
