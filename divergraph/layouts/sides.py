"""The golden side of a comparison in the layout of the device's job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from divergraph.graphs.lineage import Lineage, link_graphs
from divergraph.inputs.sources import DumpSource, GraphSource
from divergraph.layouts.fused_layers import other_names
from divergraph.layouts.jobs import job_resharded, unread_data
from divergraph.layouts.resharding import resharded
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.layouts import layout_difference
from graphstore.model import ModelGraph
from importers.msprobe.job import UNREAD, is_job


def in_device_layout(
    golden: GraphSource,
    device: GraphSource,
    golden_dump: DumpSource,
    device_dump: DumpSource,
    link: Callable[[ModelGraph, ModelGraph], Lineage] = link_graphs,
) -> tuple[GraphSource, DumpSource]:
    """The golden side as it is, or, if the device's job is split otherwise over its ranks, as the
    device's rank has it."""
    if is_job(device.graph) and not is_job(golden.graph):
        job = job_resharded(golden.graph, golden_dump.index, device.graph)
        if job is None:
            return golden, golden_dump
        graph, index, layouts = job
        sentences = (
            f"rank {rank}: {sentence}"
            for rank, layout in layouts.items()
            for sentence in layout.sentences()
        )
        unread = () if UNREAD in graph.attrs else unread_data(layouts)
        side = replace(golden, graph=graph, notes=(*golden.notes, *unread, *sentences))
        return side, replace(golden_dump, index=index)
    lineage = link(golden.graph, device.graph)
    if not lineage.recorded:
        return golden, golden_dump
    pairs = CallPairs(device.graph, golden.graph, lineage.links, ())
    if not layout_difference(pairs) and not other_names(golden.graph, device.graph):
        return golden, golden_dump
    found = resharded(golden.graph, golden_dump.index, device.graph, device_dump.index)
    if found is None:
        return golden, golden_dump
    notes = (*golden.notes, *found.layout.sentences())
    side = replace(golden, graph=found.graph, notes=notes)
    return side, replace(golden_dump, index=found.dump)
