"""The golden side of a comparison in the layout of the device's job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from divergraph.graphs.lineage import Lineage, link_graphs
from divergraph.graphs.lineage.recorded_calls import plain_name
from divergraph.inputs.sources import DumpSource, GraphSource
from divergraph.layouts.fused_layers import other_names
from divergraph.layouts.golden_job import GoldenJob
from divergraph.layouts.jobs import job_resharded
from divergraph.layouts.resharding import Resharded, resharded
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.layouts import layout_difference
from graphstore.model import ModelGraph
from importers.msprobe.job_names import is_job

_FEW = 0.1
"""Share of the weights that a job may lack as one of its calls was not dumped."""


def in_device_layout(
    golden: GraphSource,
    device: GraphSource,
    golden_dump: DumpSource,
    device_dump: DumpSource,
    link: Callable[[ModelGraph, ModelGraph], Lineage] = link_graphs,
) -> tuple[GraphSource, DumpSource]:
    """The golden side as it is, or, if the device's job is split otherwise over its ranks, as the
    device's rank has it."""
    jobs = is_job(golden.graph), is_job(device.graph)
    if not any(jobs):
        return _of_one_rank(golden, device, golden_dump, device_dump, link)
    if all(jobs) and not (
        _layout_difference(golden.graph, device.graph, link)
        or _have_other_weights(golden.graph, device.graph)
    ):
        return golden, golden_dump
    if is_job(device.graph):
        job = job_resharded(golden.graph, golden_dump.index, device.graph, device_dump.index)
        if job is None:
            return golden, golden_dump
        side = replace(golden, graph=job.graph, notes=(*golden.notes, *job.remarks))
        return side, replace(golden_dump, index=job.dump)
    run = GoldenJob(golden.graph, golden_dump.index).resharded(device.graph, device_dump.index)
    return _replaced(golden, golden_dump, run)


def _of_one_rank(
    golden: GraphSource,
    device: GraphSource,
    golden_dump: DumpSource,
    device_dump: DumpSource,
    link: Callable[[ModelGraph, ModelGraph], Lineage],
) -> tuple[GraphSource, DumpSource]:
    """The golden side, of one rank as the device's."""
    difference = _layout_difference(golden.graph, device.graph, link)
    if difference is None or not (difference or other_names(golden.graph, device.graph)):
        return golden, golden_dump
    run = resharded(golden.graph, golden_dump.index, device.graph, device_dump.index)
    return _replaced(golden, golden_dump, run)


def _layout_difference(
    golden: ModelGraph, device: ModelGraph, link: Callable[[ModelGraph, ModelGraph], Lineage]
) -> str | None:
    """How the two are split otherwise, empty if they are not; None of runs that nobody recorded."""
    lineage = link(golden, device)
    if not lineage.recorded:
        return None
    return layout_difference(CallPairs(device, golden, lineage.links, ()))


def _have_other_weights(golden: ModelGraph, device: ModelGraph) -> bool:
    """Whether ranks of the same number hold other layers, as in a pipeline of other stages."""
    theirs, ours = (
        {plain_name(constant.tensor.name) for constant in graph.constants}
        for graph in (golden, device)
    )
    return len(theirs ^ ours) > _FEW * len(theirs | ours)


def _replaced(
    golden: GraphSource, golden_dump: DumpSource, run: Resharded | None
) -> tuple[GraphSource, DumpSource]:
    """The golden side with *run* in place of its own run."""
    if run is None:
        return golden, golden_dump
    notes = (*golden.notes, *run.layout.sentences())
    side = replace(golden, graph=run.graph, notes=notes)
    return side, replace(golden_dump, index=run.dump)
