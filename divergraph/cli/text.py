"""How results look as plain text: short, aligned, the same words as everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import click

from divergraph.json_shapes import worst_first
from divergraph.questions.answers import Trace
from divergraph.questions.overview import reason_groups
from divergraph.wording import REASON_WORDS, shape_text
from graphstore.contract import GraphInfo
from graphstore.model import (
    Comparison,
    LineageLink,
    MetricSet,
    OpState,
    Origin,
    Run,
    Verdict,
)
from graphstore.op_row import OpRow

_MARKS = {
    OpState.ORIGIN: "#",
    OpState.INHERITED: "v",
    OpState.DRIFTING: "^",
    OpState.CLEAN: ".",
    OpState.BROKEN: "!",
    OpState.NOT_COMPARED: "-",
}

_VERDICTS = {
    Verdict.CLEAN: "clean: every compared tensor is within its limits",
    Verdict.NOISE: "noise: small differences, none past a limit",
    Verdict.DIVERGED: "diverged",
    Verdict.NOT_COMPARED: "nothing could be compared",
}

_SHOWN = 5


def show_run(run: Run, origins: Sequence[Origin], comparisons: Sequence[Comparison]) -> None:
    """The verdict of a run: counts, origins, worst tensors, what was not compared."""
    counts = run.counts
    click.secho(f"{run.name}: {_VERDICTS[run.verdict]}", bold=True)
    click.echo(
        f"  {counts.ops} ops, {counts.tensors} tensors: {counts.compared} compared, "
        f"{counts.over} over a limit, {counts.not_compared} not compared"
    )
    if origins:
        click.echo("")
        show_origins(origins)
    bad = worst_first(comparisons)[:_SHOWN]
    if bad:
        click.echo("")
        click.echo("worst tensors")
        for item in bad:
            level = item.level.value if item.level is not None else ""
            click.echo(f"  {_metric_text(item.metrics)}  {level:4}  {item.op}:{item.port}")
    groups = reason_groups(comparisons)
    if groups:
        click.echo("")
        click.echo("not compared")
        for group in groups:
            examples = ", ".join(group.examples)
            click.echo(f"  {group.count:5}  {REASON_WORDS[group.reason]:36}  {examples}")


def show_origins(origins: Iterable[Origin]) -> None:
    """Where the error starts, one op and its originals each."""
    items = list(origins)
    if not items:
        click.echo("no origin: no op is over its limits")
        return
    click.echo("the error starts at")
    for origin in items:
        click.echo(
            f"  {origin.rank:2} # {origin.op}  ({origin.type}, output {origin.output})  "
            f"{_metric_text(origin.metrics)}"
        )
        if origin.golden:
            names = ", ".join(str(ref) if ref.port >= 0 else ref.op for ref in origin.golden)
            click.echo(f"       golden {names}")


def show_rows(rows: Iterable[OpRow]) -> None:
    """The op table."""
    items = list(rows)
    width = max([len(row.id) for row in items] + [2])
    kind = max([len(row.type) for row in items] + [4])
    for row in items:
        mark = " " if row.state is None else _MARKS[row.state]
        fused = f"+{row.fused}" if row.fused > 1 else "*" if row.fused == 0 else ""
        tail = _metric_text(row.metrics) if row.metrics is not None else _reason_text(row)
        click.echo(
            f"{mark} {row.topo:5}  {row.id:{width}}  {fused:3} {row.type:{kind}}  "
            f"{row.dtype:9} {shape_text(row.shape):18}  {tail}"
        )
    click.echo(f"{len(items)} ops")


def show_trace(trace: Trace) -> None:
    """The way of an error, op by op, with what it reaches and where it heals."""
    click.echo(
        f"{trace.op} reaches {len(trace.steps) - 1} ops; {trace.over} of {trace.measured} "
        f"compared ones are over a limit"
    )
    for step in trace.steps:
        row = step.row
        mark = " " if row.state is None else _MARKS[row.state]
        gain = f"x{row.gain:.2f}" if row.gain is not None else ""
        tail = _metric_text(row.metrics) if row.metrics is not None else ""
        click.echo(f"{mark} {step.distance:4}  {row.id}  {row.type}  {tail}  {gain}".rstrip())
    for name in trace.healed:
        click.echo(f"healed at {name}")
    click.echo(f"ends at {', '.join(trace.outputs[:_SHOWN])}")


def show_links(op: str, links: Sequence[LineageLink]) -> None:
    """Lineage of an op, with the evidence of each link."""
    if not links:
        click.echo(f"{op}: names no original (*)")
    for link in links:
        device, original = link.device, link.original
        if link.device_port is not None:
            device += f":{link.device_port}"
        if link.original_port is not None:
            original += f":{link.original_port}"
        click.echo(f"{device}  <-  {original}   [{link.rule.value}]")


def show_runs(runs: Iterable[Run], graphs: Iterable[GraphInfo]) -> None:
    """The runs and graphs of a store."""
    for run in runs:
        counts = run.counts
        click.echo(
            f"run    {run.name:24} {run.created}  {run.verdict.value:12} "
            f"{counts.compared} compared, {counts.over} over"
        )
    for info in graphs:
        click.echo(
            f"graph  {info.name:24} {info.created}  {info.format:12} "
            f"{info.ops} ops, {info.edges} edges"
        )


def _reason_text(row: OpRow) -> str:
    return "" if row.reason is None else REASON_WORDS[row.reason]


def _metric_text(metrics: MetricSet | None) -> str:
    if metrics is None:
        return ""
    cosine = _short(metrics.cosine_similarity, "6.6f")
    error = _short(metrics.relative_euclidean_distance, "9.3g")
    worst = _short(metrics.max_absolute_error, "9.3g")
    return f"cos {cosine}  rel {error}  max|d| {worst}"


def _short(value: float, form: str) -> str:
    return "NaN" if math.isnan(value) else format(value, form)
