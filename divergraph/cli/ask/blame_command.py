"""``divergraph blame``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from divergraph.api.keep_forms import KEEP_FORMS
from divergraph.cli.options import common, opened_to_read, print_record
from divergraph.cli.run_name import RUN
from divergraph.cli.say import say, say_beside, say_note
from divergraph.cli.text import show_no_verdict
from divergraph.text.numbers import signed_percent
from divergraph.text.words import counted

if TYPE_CHECKING:
    from divergraph.api.answers import Blame, WhatIf

_file = click.Path(dir_okay=False, path_type=Path)
_Command = TypeVar("_Command", bound=Callable[..., None])


def _keep_options(command: _Command) -> _Command:
    """An option for each form of the list of ops to keep; its value is the file to write."""
    for form, help_text in reversed(KEEP_FORMS.items()):
        option = f"--{form.replace('_', '-')}"
        command = click.option(option, type=_file, help=f"Write the ops to keep {help_text}.")(
            command
        )
    return command


@click.command("blame")
@click.argument("run", type=RUN)
@click.argument("others", nargs=-1, metavar="[RUN]...")
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="The most ops to list, and to keep exact.",
)
@click.option(
    "--output-tensor",
    "--output",
    "outputs",
    multiple=True,
    metavar="TENSOR",
    help="Explain the error of this tensor of the golden model; repeat for more. "
    "[default: the model's outputs]",
)
@click.option(
    "--exact",
    multiple=True,
    metavar="OP",
    help="Say what would be left if this device op were exact; repeat for more ops together.",
)
@click.option("--list-outputs", is_flag=True, help="List how far off each output is.")
@_keep_options
@click.option(
    "--memory",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    metavar="MIB",
    help="Tensors and introduced errors held at once; the model's weights come on top.",
)
@common
def blame_command(
    run: str,
    others: tuple[str, ...],
    top: int,
    outputs: tuple[str, ...],
    exact: tuple[str, ...],
    list_outputs: bool,
    memory: int,
    store: str | None,
    as_json: bool,
    **files: Path | None,
) -> None:
    """Say which ops made the error of the model's outputs in a RUN compared before.

    Each op's introduced error is added alone to the golden run. Then ops are picked to be
    kept in higher precision, each pick proved by a run: with all other errors as they were, or,
    of a device that quantises as its graph says, with all other ops quantising anew.
    More RUNs, of the same models on other inputs, make it one list for all of them.
    Needs the models and dumps where they were, and a golden model that can be run here: of
    ONNX, or of TensorFlow, where the outputs of a training step are its gradients.
    """
    from divergraph.api.runs.compared_run import ComparedRun
    from divergraph.files.whole_files import check_place

    for path in files.values():
        if path is not None:
            check_place(path)
    names = [name for name in dict.fromkeys(others) if name != run]
    with opened_to_read(store) as opened_store:
        blamed = ComparedRun(run, store=opened_store)
        more = [ComparedRun(name, store=opened_store) for name in names]
        blame = blamed.blame(
            more, top=top, outputs=outputs, exact=exact, memory=memory, progress=True
        )
    for form, path in files.items():
        if path is not None:
            _write(path, blamed.keep_list(blame, form))
    if files["block_list"] is not None and (halved := blamed.halved_constants(blame)):
        say_note(
            f"these nodes read {counted(len(halved), 'Constant node')}, which converters to "
            "float16 make halves of; make initializers of them first, see "
            "docs/explanation/blame.md"
        )
    for warning in blame.warnings:
        say_note(warning)
    if as_json:
        print_record(replace(blame, shares=blame.shares[:top]), run=run, others=names)
    else:
        show_no_verdict(blamed.record)
        _show(blame, top, all_outputs=list_outputs)


def _write(path: Path, lines: Sequence[str]) -> None:
    from divergraph.files.whole_files import whole_file

    with whole_file(path) as place:
        place.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    say_beside(f"{counted(len(lines), 'name')} written to {path}")


_OUTPUTS = 3


def _show(blame: Blame, top: int, *, all_outputs: bool) -> None:
    """The list first; of many outputs the worst few, unless *all_outputs* were asked for."""
    nothing = not any(blame.errors.values())
    if blame.what_if is not None and not nothing:
        _show_what_if(blame.what_if)
    if blame.shares and not nothing:
        if blame.keep:
            _show_keep(blame)
        _show_shares(blame, top)
    _show_outputs(blame, len(blame.errors) if all_outputs else _OUTPUTS)
    if nothing:
        say("so there is nothing to blame an op for")
        return
    if not blame.shares:
        say("no op introduces an error")
    if blame.unexplained > 0.05:
        say(
            f"{100 * blame.unexplained:.0f} % of the error comes from no measured op: from other "
            "inputs, or ops that could not be run"
            + ("" if blame.keep else "; to keep ops in higher precision would not help")
        )
    elif blame.shares and not blame.keep:
        say("no few ops kept in higher precision take it away")


def _show_what_if(what_if: WhatIf) -> None:
    say(
        f"with {', '.join(what_if.ops)} exact {100 * what_if.left:.1f} % of the error are left; "
        f"{100 * what_if.anew:.1f} % if the others err as much but independently"
    )
    if what_if.without:
        say(f"(of {', '.join(what_if.without)} no error is known that could be taken away)")


def _show_outputs(blame: Blame, limit: int) -> None:
    say("the model's outputs are off by")
    errors = blame.errors.items()
    listed = list(errors)
    if len(listed) > limit:
        listed = sorted(errors, key=lambda entry: -entry[1])[:limit]
    for name, error in listed:
        off = f"{error:9.3g}" if isfinite(error) else "no number"
        part = f", {blame.parts[name]}" if name in blame.parts else ""
        say(f"  {off}  {name}{part}")
    if len(listed) < len(blame.errors):
        say(f"  and {len(blame.errors) - len(listed)} more by less (--list-outputs)")
    if blame.stand_ins:
        stands = "stand" if len(blame.stand_ins) > 1 else "stands"
        say(f"({len(blame.stand_ins)} of these {stands} for outputs that were not compared)")


def _show_shares(blame: Blame, top: int) -> None:
    say("shares of that error: signed, by size, and what is left if the op were exact")
    for share in blame.shares[:top]:
        signed, size = f"{signed_percent(share.share):>9}", f"{100 * share.size:6.1f} %"
        say(f"  {signed}  {size}  {share.left:9.3g}  {share.op}")
    if len(blame.shares) > top:
        say(f"  and {len(blame.shares) - top} more")


def _show_keep(blame: Blame) -> None:
    say("to keep in higher precision, and the share of the error left:")
    if blame.imitated:
        say("with the others rounding again: on this input, and on slightly different ones")
    else:
        say("if the others err exactly as they did, and if as much but independently, as is likely")
    if blame.not_imitated:
        say(f"(the device quantises, but is not emulated: {blame.not_imitated})")
    for place, entry in enumerate(blame.keep, 1):
        say(f"  {place:3}  {100 * entry.left:6.1f} %  {100 * entry.anew:6.1f} %  {entry.op}")
