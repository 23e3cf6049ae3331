"""``divergraph compare --ranks --steps``: a run for each, and a table of all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from divergraph.api.compare import CompareOptions, compare_many, compare_own_part
from divergraph.cli.options import opened, print_or_show, store_url
from divergraph.cli.say import say, say_beside, tell_kept
from divergraph.outcomes import BAD_INPUT, outcome_of_verdict
from divergraph.text.words import counted
from graphstore.model import Verdict

if TYPE_CHECKING:
    from divergraph.api.answers import ManyRuns


def compare_places(
    paths: tuple[Path, Path | None, Path, Path | None],
    options: CompareOptions,
    ranks: str | None,
    steps: str | None,
    *,
    name: str | None,
    replace_it: bool,
    store: str | None,
    as_json: bool,
) -> int:
    """Compare the chosen ranks and steps, print what came of each; the exit code.

    1 if some place diverged, else 2 if some place could not be compared.
    """
    if compare_own_part(*paths, **options):
        return 0
    with opened(store) as opened_store:
        result = compare_many(
            *paths,
            store=opened_store,
            ranks=ranks,
            steps=steps,
            name=name,
            replace=replace_it,
            progress=True,
            **options,
        )
    for run in result.runs:
        if run.run is not None and run.kept:
            tell_kept(run.run.name)
    print_or_show(result, _show, as_json=as_json)
    stored = sum(run.kept for run in result.runs)
    say_beside(f"kept {counted(stored, 'run')} {result.name}.* in {store_url(store)}")
    failed = any(run.problem for run in result.runs)
    if failed and result.verdict is not Verdict.DIVERGED:
        return BAD_INPUT.exit_code
    return outcome_of_verdict(result.verdict).exit_code


def _show(result: ManyRuns) -> None:
    say(f"{result.name}: {result.verdict.value}", bold=True)
    say(f"  {'rank':>6} {'step':>6}  {'verdict':12} {'compared':>8} {'over':>6}  starts at")
    for run in result.runs:
        rank, step = (
            "-" if number is None else number for number in (run.place.rank, run.place.step)
        )
        if run.run is None:
            say(f"  {rank:>6} {step:>6}  {run.problem}")
            continue
        counts = run.run.counts
        say(
            f"  {rank:>6} {step:>6}  {run.run.verdict.value:12} {counts.compared:>8} "
            f"{counts.over:>6}  {run.origins[0] if run.origins else ''}".rstrip()
        )
    for op, places in result.origins[:5]:
        say(f"the error starts at {op} in {places} of {len(result.runs)}")
