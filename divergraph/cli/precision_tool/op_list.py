"""Ops as ``ls`` of precision_tool lists them."""

from __future__ import annotations

from divergraph.ask.fusion_passes import passes_of
from divergraph.cli.ask.op_text import kernel_names
from divergraph.cli.options import opened_to_read
from divergraph.cli.precision_tool.place import ToolPlace
from divergraph.cli.say import say_beside, say_each
from divergraph.text.words import counted
from graphstore.errors import InputError

_SHOWN = 8


def list_ops(place: ToolPlace, *, name: str, kind: str, fusion: str, kernel: str) -> None:
    """Print ``[type][pass] op`` of each op that has these parts in its name, type, passes and the
    names of its kernels; case does not matter."""
    from divergraph.ask.questions.ops import OpsQuestion

    target = place.target()
    with opened_to_read(place.store) as store:
        rows = [
            row
            for row in OpsQuestion(target).ask(store).ops
            if _has(row.id, name) and _has(row.type, kind)
        ]
        ops = store.ops(target, [row.id for row in rows])
    lines = []
    for row in rows:
        attrs = ops[row.id].attrs
        passes = [named_pass.name for named_pass in passes_of(attrs)]
        kernels = kernel_names(attrs)
        if _any_has(passes, fusion) and _any_has(kernels, kernel):
            lines.append(
                f"[{row.type}]{''.join(f'[{pass_name}]' for pass_name in passes)} {row.id}"
            )
    say_each(lines)
    say_beside(counted(len(lines), "op"))


def op_in_graph(place: ToolPlace, target: str, graph: str, name: str) -> str:
    """The id of the op *name* in the sub-graph *graph*, or in the root if that is its name.

    Raises:
        InputError: the target has no such graph.
    """
    with opened_to_read(place.store) as store:
        header = store.graph_columns(target).header
    bodies = [body.name for body in header.subgraphs]
    if graph in bodies:
        return f"{graph}/{name}"
    if graph == header.name:
        return name
    graphs = ", ".join([header.name, *bodies][:_SHOWN])
    raise InputError(f"{target} has no graph {graph!r}", hint=f"its graphs: {graphs}")


def _has(text: str, part: str) -> bool:
    return part.lower() in text.lower()


def _any_has(texts: list[str], part: str) -> bool:
    return not part or any(_has(text, part) for text in texts)
