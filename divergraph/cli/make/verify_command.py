"""``divergraph verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from divergraph.cli.options import place_options, print_or_show, root_cause_options
from divergraph.cli.say import say, say_note
from divergraph.outcomes import outcome_of_verdict
from divergraph.text.numbers import short
from divergraph.text.words import counted
from graphstore.model import Verdict

if TYPE_CHECKING:
    from divergraph.api.answers import Verification, WrongOutput
    from divergraph.api.arguments import PlaceOptions

    class _VerifyOptions(PlaceOptions, total=False):
        suspect: float
        guilty: float
        precision: str


_path = click.Path(path_type=Path, readable=False)  # the readers say it in one line
_SURE = 0.5
_LISTED = 8
_WORDS = {
    Verdict.CLEAN: "every op that was run made its outputs",
    Verdict.DIVERGED: "not made by their ops",
    Verdict.UNDECIDED: "nothing is wrong with the ops that were run",
    Verdict.NOT_COMPARED: "no op could be run",
}


@click.command("verify")
@click.argument("dump", type=_path)
@click.option("--graph", type=_path, metavar="GRAPH|DIR", help="The Build graph DUMP was made of.")
@click.option("--om", type=_path, metavar="FILE", help="The offline model: its weights, and graph.")
@click.option(
    "--weights",
    type=_path,
    metavar="DIR",
    help="Variables and constants that were not dumped: .npy files named after their op.",
)
@place_options
@root_cause_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def verify_command(
    dump: Path,
    graph: Path | None,
    om: Path | None,
    weights: Path | None,
    memory: int,
    as_json: bool,
    **options: Unpack[_VerifyOptions],
) -> int:
    """Run each device op on its own dumped inputs: say which outputs it cannot have made.

    DUMP is an Ascend device's, with the inputs of its ops (dump_mode all) or, where these were not
    dumped, the outputs before them. No golden model or dump is needed. Ops that have no definition
    here are counted.

    Exit code 0: nothing wrong, 1: an output is wrong, or an input not what was put out before, 2:
    bad input, nothing could be run, no answer can be right, or nothing is wrong but ops could not
    be judged because their weights are nowhere.
    """
    from divergraph.api.verify import verify

    verification = verify(
        dump, graph, om=om, weights=weights, memory=memory << 20, progress=True, **options
    )
    print_or_show(verification, _show, as_json=as_json)
    return outcome_of_verdict(verification.verdict).exit_code


def _show(verification: Verification) -> None:
    if verification.doubt:
        say(f"doubt: {verification.doubt}")
    if verification.gap:
        say(f"not judged: {verification.gap}", bold=True)
    wrong = len({output.op for output in verification.wrong})
    changed = [finding for finding in verification.changed if finding.confidence >= _SURE]
    parts = [counted(wrong, "op") + " cannot have made what it dumped"] if wrong == 1 else []
    if wrong > 1:
        parts = [f"{wrong} ops cannot have made what they dumped"]
    if changed:
        parts.append(f"{counted(len(changed), 'input')} not what was put out before")
    say(f"verify: {verification.verdict.value.replace('_', ' ')}", bold=True)
    nothing = "no answer can be right" if verification.doubt else _WORDS[verification.verdict]
    say(f"  {'; '.join(parts) or nothing}")
    say(_coverage(verification))
    for title, outputs in (("wrong", verification.wrong), ("suspect", verification.suspects)):
        if outputs:
            say()
            say(title, bold=True)
        for number, wrong_output in enumerate(outputs, 1):
            _show_output(number, wrong_output)
    if verification.changed:
        say()
        for finding in verification.changed:
            say(f"{'!' if finding.confidence >= _SURE else '?'} {finding.sentence}")
    for remark in verification.remarks:
        say_note(remark)


def _coverage(verification: Verification) -> str:
    text = f"  {verification.verified} of {counted(verification.dumped, 'op')} run"
    if verification.inputs:
        text += f", {counted(verification.inputs, 'input')} compared with their producers"
    if not verification.types:
        return text
    listed = [f"{kind} {number}" for kind, number in list(verification.types.items())[:_LISTED]]
    first, why = next(iter(verification.not_covered.items()))
    return f"{text}; not run: {', '.join(listed)} (first: {first}: {why})"


def _show_output(number: int, output: WrongOutput) -> None:
    split = output.split
    say(
        f"{number:4} # {output.op}  ({output.type}, output {output.port})  "
        f"error {short(split.introduced)}  {short(split.suspicion)} times what "
        "the device's arithmetic explains"
    )
    if output.cause:
        say(f"       {output.cause}")
