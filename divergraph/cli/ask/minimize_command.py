"""``divergraph minimize``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from divergraph.cli.ask.model_options import model_options, opened_parts
from divergraph.cli.numbers import FiniteRange
from divergraph.cli.options import common, print_record
from divergraph.cli.say import say, say_lines
from divergraph.cli.text import show_no_verdict
from divergraph.jobs.progress import FindingListener
from divergraph.outcomes import BAD_INPUT, DIVERGED, gives_no_answer
from divergraph.text.words import counted

if TYPE_CHECKING:
    from divergraph.api.answers import MinimalPart, Minimized, Probe
    from divergraph.api.runs.minimize import MinimizeRequest
    from divergraph.api.runs.parts_of_model import ModelRun
    from graphstore.model import Run

_path = click.Path(path_type=Path)
_SHOWN = 12
_STOPPED = 130


@click.command("minimize")
@click.argument("run", metavar="RUN|GRAPH|MODEL", required=False)
@click.option(
    "--oracle",
    default="auto",
    show_default=True,
    metavar="NAME[:ARG]",
    help="What says whether a part fails: evidence, device-model[:FILE], "
    "stand-in:fp16|int8|optimized, command:'PROGRAM {bundle}'.",
)
@click.option("--start", "starts", multiple=True, metavar="OP", help="Search only after this op.")
@click.option("--end", "ends", multiple=True, metavar="OP", help="... and before this one.")
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    metavar="N",
    help="Calls of the oracle after which to stop.",
)
@click.option(
    "--time", "seconds", type=FiniteRange(min=0), metavar="S", help="Seconds after which to stop."
)
@click.option(
    "--timeout",
    type=FiniteRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="S",
    help="Seconds one call of a program may take.",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(1, 64), default=1, show_default=True,
    metavar="N", help="Parts tried at the same time.",
)  # fmt: skip
@click.option("--flaky", is_flag=True, help="A failing part may pass now and then: try again.")
@click.option(
    "--variant",
    type=click.Choice(["golden", "device", "auto"]),
    default="auto",
    show_default=True,
    help="What parts are fed; auto: golden values, then the device's own.",
)
@click.option(
    "--factor",
    type=FiniteRange(min=0, min_open=True),
    default=3.0,
    show_default=True,
    metavar="N",
    help="Noise floors an output may be off.",
)
@click.option("--model", type=_path, help="The golden model's file, if it was moved.")
@click.option("--weights", type=_path, help="Its weights, if they are in a separate file.")
@click.option("--fresh", is_flag=True, help="Forget what earlier searches learned.")
@click.option("-o", "--output", type=_path, help="Write the minimal part's bundle in this folder.")
@click.option(
    "--template",
    type=click.Choice(["atc", "tensorrt", "openvino"]),
    help="Only print a program for --oracle command to start from.",
)
@model_options
@common
def minimize_command(
    run: str | None,
    oracle: str,
    starts: tuple[str, ...],
    ends: tuple[str, ...],
    budget: int | None,
    seconds: float | None,
    timeout: float,
    jobs: int,
    flaky: bool,
    variant: str,
    factor: float,
    model: Path | None,
    weights: Path | None,
    fresh: bool,
    output: Path | None,
    template: str | None,
    model_run: ModelRun,
    store: str | None,
    as_json: bool,
) -> int:
    """Find the smallest parts of a RUN's model that still fail.

    A MODEL's file, or a GRAPH that was imported, is run here and compared with the --device;
    without one --oracle says what fails.

    Suspects are tried alone first, then together with more and more of the ops around them.
    All answers are kept, those on a MODEL in the cache folder: a search that was stopped goes
    on where it was. What was found is kept with a RUN; of a MODEL take it with -o or --json.
    Exit code 1: a failing part was found; 0: nothing fails; 2: undecided.
    """
    if template is not None:
        from divergraph.api.runs.minimize import template_text

        say_lines(template_text(template))
        return 0
    if run is None:
        raise click.UsageError("Missing argument 'RUN'.")
    from divergraph.api.runs.minimize import minimize_request

    request = minimize_request(
        oracle, starts, ends, variant, budget, seconds, jobs, flaky, timeout, factor,
        output, weights, fresh,
    )  # fmt: skip
    result, record = _search_result(run, request, model, model_run, store)
    if as_json:
        print_record(result, run=run)
    else:
        if record is not None:
            show_no_verdict(record)
        _show(result)
    code = _exit_code(result)
    if code == 0 and record is not None and gives_no_answer(record.verdict):
        return BAD_INPUT.exit_code  # that nothing fails is no good news of such a run
    return code


def _search_result(
    run: str, request: MinimizeRequest, model: Path | None, model_run: ModelRun, store: str | None
) -> tuple[Minimized, Run | None]:
    """What the search gives, and the run, if it is one that is searched: it keeps the answer."""
    from divergraph.api.runs.minimize import AUTO, with_search

    judged = request.oracle == AUTO
    with opened_parts(
        store, run, model_run, model, request.weights, values=True, judged=judged
    ) as opened:
        minimized = opened.parts.minimize(request, opened.progress)
        if minimized.parts and isinstance(opened.progress, FindingListener):
            opened.progress.found("; ".join(_head(part, minimized) for part in minimized.parts))
        if opened.store is not None and not minimized.clean:
            opened.store.save_run(with_search(opened.parts.data, minimized), replace=True)
        return minimized, None if opened.store is None else opened.parts.data.run


def _exit_code(result: Minimized) -> int:
    if result.stopped == "stopped by the user":
        return _STOPPED
    if result.parts:
        return DIVERGED.exit_code
    clean = result.clean or any(probe.verdict.value == "pass" for probe in result.probes)
    return 0 if clean and not result.stopped else BAD_INPUT.exit_code


def _show(result: Minimized) -> None:
    for part in result.parts:
        _show_part(part, result)
    if result.note:
        say(result.note)
    if result.stopped:
        say(f"stopped early: {result.stopped}")
    if result.probes:
        cached = sum(not probe.calls for probe in result.probes)
        also = f", {counted(cached, 'answer')} known before" if cached else ""
        say(f"tried ({result.calls} calls of {result.oracle.split()[0]}{also}):")
        children: dict[int | None, list[Probe]] = {}
        for probe in result.probes:
            children.setdefault(probe.parent, []).append(probe)
        _show_probes(children, None, 1)


def _show_part(part: MinimalPart, result: Minimized) -> None:
    say(_head(part, result))
    for op in part.ops[:_SHOWN]:
        say(f"  {op}")
    if len(part.ops) > _SHOWN:
        say(f"  and {len(part.ops) - _SHOWN} more")
    say(f"  {part.judgement.detail}")
    say(f"  {part.found.why}")
    if part.found.minimal and len(part.found.units) > 1:
        say("  minimal: without any one op at its edge it passes")
    if part.bundle is not None:
        say(f"  written to {part.bundle}")


def _head(part: MinimalPart, result: Minimized) -> str:
    what = "minimal failing part" if part.found.minimal else "smallest failing part so far"
    return f"{what}: {len(part.ops)} of {result.ops} ops, fed {part.found.variant} inputs"


def _show_probes(children: dict[int | None, list[Probe]], parent: int | None, depth: int) -> None:
    waiting = [(probe, depth) for probe in reversed(children.get(parent, []))]
    while waiting:
        probe, deep = waiting.pop()
        cached = f" ({probe.known})" if probe.known else ""
        indent = "  " * min(deep, 8)
        say(f"{indent}{probe.verdict:7} {probe.ops:6} ops  {probe.why}{cached}")
        following = reversed(children.get(probe.number, []))
        waiting += [(probe, deep + 1) for probe in following]
