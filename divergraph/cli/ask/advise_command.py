"""``divergraph advise``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.options import common, opened_to_read, print_record
from divergraph.cli.run_name import RUN
from divergraph.cli.say import say_beside, say_lines
from divergraph.outcomes import DIVERGED, FINE, NOTHING_COMPARED


@click.command("advise")
@click.argument("run", type=RUN)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write advisor_summary.txt there.",
)
@common
def advise_command(run: str, folder: Path | None, store: str | None, as_json: bool) -> int:
    """Say what RUN shows as a whole, and what to do next.

    Three detections: float16 overflow, inconsistent inputs, and the consistency of the
    whole network: a problem node, a single-point error, or consistent. The first
    finding is the one to act on.

    Exit code 0: nothing to do, 1: something to look into, 2: nothing was compared.
    """
    from divergraph.ask.advisor.advisor import NOT_COMPARED
    from divergraph.ask.questions.advise import AdviceQuestion
    from divergraph.present.advice_text import summary, write_summary

    with opened_to_read(store) as opened_store:
        advice = AdviceQuestion(run).ask(opened_store)
    written = None if folder is None else write_summary(folder, advice)
    if as_json:
        print_record(advice, run=run, file=written and str(written))
    else:
        say_lines("\n".join(summary(finding) for finding in advice.findings))
        if written is not None:
            say_beside(f"written to {written}")
    if advice.first.label == NOT_COMPARED:
        return NOTHING_COMPARED.exit_code
    return (FINE if advice.quiet else DIVERGED).exit_code
