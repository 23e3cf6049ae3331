"""The rows of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import Coded
from graphstore.contract import RunData
from graphstore.model import Finding, FindingKind, LineageLink, LineageRule, TensorIO
from graphstore.schema import codec
from graphstore.schema.codec import plain_text
from graphstore.schema.metric_rows import metric_table
from graphstore.schema.row_slices import Columns, Records, Row, Table, columns_table
from graphstore.schema.stored_graph import StoredGraph, first_id
from graphstore.traverse.algorithms import few_next_measured
from graphstore.traverse.arrays import Int32

_PAIRS, _PAIRS_AN_EDGE = 1_000_000, 2
"""How many NEXT_MEASURED relationships a run may have: this number, or the second one per edge if
that is more."""
_WORDS = {word: word.value for word in LineageRule}


@dataclass(frozen=True, slots=True)
class RunEnds:
    """The numbers of the ops that the contents of a run refer to; -1 where there is no such op.

    ``sources`` and ``targets`` are the device and golden ends of the links, ``compared`` and
    ``against`` those of the comparisons, ``found`` the ops of the findings.
    """

    sources: Int32
    targets: Int32
    compared: Int32
    against: Int32
    found: Int32

    @classmethod
    def of(cls, data: RunData, golden: StoredGraph, device: StoredGraph) -> RunEnds:
        """Those of a whole run.

        Raises:
            ValueError: a device op without a comparison or state; a comparison or state of
                an op the device graph does not have.
        """
        links, items = data.links, data.comparisons
        refs = [item.golden for item in items]
        compared = device.numbers_of([item.op for item in items])
        if not _is_complete(data, device, compared):
            raise _incomplete(data)
        return cls(
            device.numbers_of([link.device for link in links]),
            golden.numbers_of([link.original for link in links]),
            compared,
            golden.numbers_of([None if ref is None else ref.op for ref in refs]),
            device.numbers_of([one.op for one in data.findings]),
        )


def _is_complete(data: RunData, device: StoredGraph, compared: Int32) -> bool:
    """True if every device op has a comparison and a state, and nothing else has one.

    *compared* are the numbers of the ops of the comparisons.
    """
    if (compared < 0).any() or data.states.keys() != device.place.keys():
        return False
    is_compared = np.zeros(len(data.device.ops), dtype=np.bool_)
    is_compared[compared] = True
    return bool(is_compared.all())


def _incomplete(data: RunData) -> ValueError:
    """The error message for an incomplete run."""
    ops = {op.id for op in data.device.ops}
    compared = {comparison.op for comparison in data.comparisons}
    what, names = ("comparison", compared) if compared != ops else ("state", data.states.keys())
    unpaired = sorted(names ^ ops)
    return ValueError(
        f"run {data.run.name!r}: every device op needs a {what} and nothing else may "
        f"have one; wrong for {len(unpaired)} ops, the first is {unpaired[0]!r}"
    )


def run_records(data: RunData, golden: StoredGraph, device: StoredGraph, run_key: str) -> Records:
    """The rows of a run kept under *run_key*, without those of its graphs.

    Raises:
        ValueError: as :meth:`RunEnds.of`.
    """
    rows = RunRows(data, golden, device, run_key, RunEnds.of(data, golden, device))
    followers = rows.next_measured()
    return Records(
        {
            "Run": [rows.run(followers is not None)],
            "Metric": rows.metrics(),
            "Finding": rows.findings(),
        },
        {
            "FUSES": rows.links(),
            "NEXT_MEASURED": followers or Table.of(()),
            **rows.metric_links(),
        },
    )


class RunRows:
    """Makes the rows of a run kept under *key*, table by table."""

    def __init__(
        self, data: RunData, golden: StoredGraph, device: StoredGraph, key: str, ends: RunEnds
    ) -> None:
        self._data = data
        self._golden = golden
        self._device = device
        self._key = key
        self._ends = ends
        self._followers: list[Table | None] = []
        self._outputs: list[NDArray[np.int64]] = []

    def without_comparisons(self, links: tuple[LineageLink, ...]) -> RunRows:
        """The same without what takes most memory, for who has taken the metrics already.

        *links* are its own, perhaps those of another run that has the same.
        """
        self.next_measured()
        self._output_ids()
        data = replace(self._data, comparisons=(), states={}, links=links)
        light = RunRows(data, self._golden, self._device, self._key, self._ends)
        light._followers, light._outputs = self._followers, self._outputs
        return light

    def run(self, has_followers: bool) -> Row:
        """The row of the table Run."""
        data, run, counts = self._data, self._data.run, self._data.run.counts
        # Links to ops that no graph has cannot be relationships, and must not be lost.
        loose = [(place, data.links[place]) for place in np.flatnonzero(~self._there()).tolist()]
        return (
            self._key,
            plain_text(run.name),
            self._golden.key,
            self._device.key,
            run.created,
            run.verdict.value,
            run.method.value,
            plain_text(run.version),
            counts.ops,
            counts.tensors,
            counts.compared,
            counts.over,
            counts.not_compared,
            codec.text_of(data.origins),
            codec.text_of(loose),
            has_followers,
            codec.text_of(data.suspects) if data.suspects else None,
        )

    def metrics(self) -> Table:
        """The rows of the table Metric."""
        ends = self._ends
        return metric_table(
            self._data,
            ends.against >= 0,
            self._key,
            self._metric_ids(),
            self._device.nodes(ends.compared),
            self._output_ids(),
        )

    def findings(self) -> Sequence[Row]:
        """The rows of the table Finding."""
        nodes = self._finding_nodes()
        return finding_rows(self._data.findings, self._key, self._finding_ids(), nodes)

    def links(self) -> Table:
        """The rows of FUSES: the links between ops that are there."""
        numbers = np.flatnonzero(self._there()).astype(np.int32)
        sources = self._ends.sources[numbers]
        targets = self._ends.targets[numbers]
        source_nodes, target_nodes = self._device.nodes, self._golden.nodes
        links, run = self._data.links, self._key

        def columns(first: int, until: int) -> Columns:
            part = [links[place] for place in numbers[first:until].tolist()]
            return (
                source_nodes(sources[first:until]),
                target_nodes(targets[first:until]),
                Coded.same(run, len(part)),
                numbers[first:until],
                [_WORDS[link.rule] for link in part],
                [link.device_port for link in part],
                [link.original_port for link in part],
                [link.confidence for link in part],
            )

        return Table(len(numbers), columns)

    def next_measured(self) -> Table | None:
        """The rows of NEXT_MEASURED; None if there were more than a store can be asked to keep."""
        if not self._followers:
            self._followers.append(self._next_measured())
        return self._followers[0]

    def _next_measured(self) -> Table | None:
        arrays = self._device.arrays
        is_measured = [
            item.compared and item.io is TensorIO.OUTPUT for item in self._data.comparisons
        ]
        measured = np.zeros(len(arrays.ids), dtype=np.bool_)
        measured[self._ends.compared[is_measured]] = True
        limit = max(_PAIRS, _PAIRS_AN_EDGE * len(arrays.successor_ops))
        pairs = few_next_measured(arrays, measured, limit)
        if pairs is None:
            return None
        sources, targets = pairs
        nodes, run = self._device.nodes, self._key

        def columns(first: int, until: int) -> Columns:
            begin, end = sources[first:until], targets[first:until]
            return nodes(begin), nodes(end), Coded.same(run, len(begin)), begin >= end

        return Table(len(sources), columns)

    def metric_links(self) -> dict[str, Sequence[Row]]:
        """The rows of the relationships of metrics and findings."""
        ends, ids, run = self._ends, self._metric_ids(), self._key
        there, outputs = ends.against >= 0, self._output_ids()
        is_output = outputs >= 0
        finding_ids, nodes = self._finding_ids(), self._finding_nodes()
        about = [pair for pair in zip(finding_ids, nodes, strict=True) if pair[1] is not None]
        return {
            "OF": columns_table((ids, self._device.nodes(ends.compared))),
            "OF_TENSOR": columns_table((ids[is_output], outputs[is_output])),
            "AGAINST": columns_table((ids[there], self._golden.nodes(ends.against[there]))),
            "COMPARED": Table(
                len(ids),
                lambda first, until: (Coded.same(run, until - first), ids[first:until]),
            ),
            "ABOUT": Table.of(about),
            "FOUND": Table.of([(run, one) for one in finding_ids]),
        }

    def graph_links(self) -> dict[str, Sequence[Row]]:
        """The rows of the relationships to the two graphs."""
        return {
            "OF_DEVICE": Table.of([(self._key, self._device.key)]),
            "OF_GOLDEN": Table.of([(self._key, self._golden.key)]),
        }

    def _there(self) -> NDArray[np.bool_]:
        return (self._ends.sources >= 0) & (self._ends.targets >= 0)

    def _metric_ids(self) -> NDArray[np.int64]:
        return first_id(self._key) + np.arange(len(self._ends.compared), dtype=np.int64)

    def _output_ids(self) -> NDArray[np.int64]:
        """The node id of the tensor of each comparison; -1 where it is no output of its op."""
        if not self._outputs:
            self._outputs.append(self._made_output_ids())
        return self._outputs[0]

    def _made_output_ids(self) -> NDArray[np.int64]:
        items, device = self._data.comparisons, self._device
        counts = np.diff(device.tensor_starts)
        first = device.tensor_starts[:-1].astype(np.int64) + device.first_id
        numbers = self._ends.compared
        ports = np.fromiter(
            (item.port if item.io is TensorIO.OUTPUT else -1 for item in items), np.int64
        )
        is_output = (ports >= 0) & (ports < counts[numbers])
        return np.where(is_output, first[numbers] + ports, -1)

    def _finding_ids(self) -> list[int]:
        first = first_id(self._key)
        return list(range(first, first + len(self._data.findings)))

    def _finding_nodes(self) -> list[int | None]:
        first = self._device.first_id
        return [None if at < 0 else first + at for at in self._ends.found.tolist()]


def finding_rows(
    findings: Sequence[Finding], run: str, ids: Sequence[int], nodes: Sequence[int | None]
) -> list[Row]:
    """One row a finding; *ids* are its node ids, *nodes* those of its ops, if there are any."""
    return [
        (
            ids[seq],
            run,
            seq,
            finding.kind.value,
            plain_text(finding.label),
            plain_text(finding.sentence),
            nodes[seq],
            plain_text(finding.op) if finding.op and nodes[seq] is None else None,
            finding.io.value,
            finding.port,
            None if math.isnan(finding.confidence) else float(finding.confidence),
            codec.values_text(finding.evidence),
        )
        for seq, finding in enumerate(findings)
    ]


def finding_value(row: Mapping[str, Any], name_of: Mapping[int, str]) -> Finding:
    """The finding behind a row of the query ``run_findings``; *name_of* has the ops by node id."""
    return Finding(
        kind=FindingKind(row["kind"]),
        label=row["label"],
        sentence=row["sentence"],
        op=name_of.get(row["node"], row["op"] or ""),
        io=TensorIO(row["io"]),
        port=row["port"],
        confidence=math.nan if row["confidence"] is None else row["confidence"],
        evidence=codec.values_of(row["evidence"]),
    )
