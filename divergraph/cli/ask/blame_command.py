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
        found = blamed.blame(
            more, top=top, outputs=outputs, exact=exact, memory=memory, progress=True
        )
    for form, path in files.items():
        if path is not None:
            _write(path, blamed.keep_list(found, form))
    if files["block_list"] is not None and (held := blamed.halved_constants(found)):
        say_note(
            f"these nodes read {counted(len(held), 'Constant node')}, which converters to "
            "float16 make halves of; make initializers of them first, see "
            "docs/explanation/blame.md"
        )
    for warning in found.warnings:
        say_note(warning)
    if as_json:
        print_record(replace(found, shares=found.shares[:top]), run=run, others=names)
    else:
        show_no_verdict(blamed.record)
        _show(found, top, whole=list_outputs)


def _write(path: Path, lines: Sequence[str]) -> None:
    from divergraph.files.whole_files import whole_file

    with whole_file(path) as place:
        place.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    say_beside(f"{counted(len(lines), 'name')} written to {path}")


_OUTPUTS = 3


def _show(found: Blame, top: int, *, whole: bool) -> None:
    """The list first; of many outputs the worst few, unless the *whole* list was asked for."""
    nothing = not any(found.errors.values())
    if found.what_if is not None and not nothing:
        _show_what_if(found.what_if)
    if found.shares and not nothing:
        if found.keep:
            _show_keep(found)
        _show_shares(found, top)
    _show_outputs(found, len(found.errors) if whole else _OUTPUTS)
    if nothing:
        say("so there is nothing to blame an op for")
        return
    if not found.shares:
        say("no op introduces an error")
    if found.unexplained > 0.05:
        say(
            f"{100 * found.unexplained:.0f} % of the error comes from no measured op: from other "
            "inputs, or ops that could not be run"
            + ("" if found.keep else "; to keep ops in higher precision would not help")
        )
    elif found.shares and not found.keep:
        say("no few ops kept in higher precision take it away")


def _show_what_if(asked: WhatIf) -> None:
    say(
        f"with {', '.join(asked.ops)} exact {100 * asked.left:.1f} % of the error are left; "
        f"{100 * asked.anew:.1f} % if the others err as much but independently"
    )
    if asked.without:
        say(f"(of {', '.join(asked.without)} no error is known that could be taken away)")


def _show_outputs(found: Blame, most: int) -> None:
    say("the model's outputs are off by")
    errors = found.errors.items()
    shown = list(errors)
    if len(shown) > most:
        shown = sorted(errors, key=lambda each: -each[1])[:most]
    for name, error in shown:
        off = f"{error:9.3g}" if isfinite(error) else "no number"
        part = f", {found.parts[name]}" if name in found.parts else ""
        say(f"  {off}  {name}{part}")
    if len(shown) < len(found.errors):
        say(f"  and {len(found.errors) - len(shown)} more by less (--list-outputs)")
    if found.stand_ins:
        stands = "stand" if len(found.stand_ins) > 1 else "stands"
        say(f"({len(found.stand_ins)} of these {stands} for outputs that were not compared)")


def _show_shares(found: Blame, top: int) -> None:
    say("shares of that error: signed, by size, and what is left if the op were exact")
    for share in found.shares[:top]:
        signed, size = f"{100 * share.share:+7.1f} %", f"{100 * share.size:6.1f} %"
        say(f"  {signed}  {size}  {share.left:9.3g}  {share.op}")
    if len(found.shares) > top:
        say(f"  and {len(found.shares) - top} more")


def _show_keep(found: Blame) -> None:
    say("to keep in higher precision, and the share of the error left:")
    if found.imitated:
        say("with the others rounding again: on this input, and on slightly different ones")
    else:
        say("if the others err exactly as they did, and if as much but independently, as is likely")
    if found.not_imitated:
        say(f"(the device quantises, but is not emulated: {found.not_imitated})")
    for place, kept in enumerate(found.keep, 1):
        say(f"  {place:3}  {100 * kept.left:6.1f} %  {100 * kept.anew:6.1f} %  {kept.op}")
