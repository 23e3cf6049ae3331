"""The lineage links of a run as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import Bool, Coded, Float, Int, starts
from graphstore.model import LineageLink, LineageRule, Side
from graphstore.traverse.arrays import distinct


@dataclass(frozen=True, eq=False)
class LinkColumns:
    """Links between the ops ``ids`` of both sides, in saved order: link i is between the ops
    number ``devices[i]`` and ``originals[i]``.

    Ports are -1 where the link names none. ``loose`` are the links with an end in no graph, each
    with its place among all.
    """

    ids: Mapping[Side, Sequence[str]]
    devices: Int
    originals: Int
    rules: Coded[LineageRule]
    device_ports: Int
    original_ports: Int
    confidence: Float
    places: NDArray[np.int64]
    loose: Sequence[tuple[int, LineageLink]] = ()

    @classmethod
    def by_name(
        cls, ids: Sequence[str], originals: Sequence[str], pairs: tuple[Int, Int]
    ) -> LinkColumns:
        """Links between ops *ids* and the *originals* their graph names, by their numbers."""
        size = len(pairs[0])
        none = np.full(size, -1, dtype=np.int32)
        return cls(
            {Side.DEVICE: ids, Side.GOLDEN: originals},
            *pairs,
            Coded.same(LineageRule.ORIGINAL_NAMES, size),
            none,
            none,
            np.ones(size),
            np.arange(size),
        )

    def __post_init__(self) -> None:
        ends = {Side.DEVICE: self.devices, Side.GOLDEN: self.originals}
        for side, own in ends.items():
            order = np.argsort(own, kind="stable").astype(np.int32)
            counts = np.bincount(own, minlength=len(self.ids[side]))
            self._of_op[side] = starts(counts), order

    _of_op: dict[Side, tuple[Int, Int]] = field(default_factory=dict, init=False, repr=False)
    """By side: where the links of each op start in a list of links, and that list."""

    def _ends(self, side: Side) -> Int:
        return self.devices if side is Side.DEVICE else self.originals

    def partners(self, side: Side, number: int) -> list[int]:
        """The numbers of the ops linked with op *number* of *side*, ascending."""
        start, links = self._of_op[side]
        other = self._ends(Side.GOLDEN if side is Side.DEVICE else Side.DEVICE)
        numbers: list[int] = np.unique(other[links[start[number] : start[number + 1]]]).tolist()
        return numbers

    def of(self, side: Side, number: int, name: str) -> list[LineageLink]:
        """The links of op *number* of *side*, which is called *name*, in saved order."""
        start, links = self._of_op[side]
        rows = links[start[number] : start[number + 1]].tolist()
        links_by_place = [(int(self.places[row]), self._link(row)) for row in rows]
        of_device = side is Side.DEVICE
        for place, link in self.loose:
            if name == (link.device if of_device else link.original):
                links_by_place.append((place, link))
        return [link for _, link in sorted(links_by_place, key=lambda item: item[0])]

    def linked(self, side: Side) -> Bool:
        """The ops of *side* that have a link."""
        start, _ = self._of_op[side]
        linked: Bool = np.diff(start) > 0
        names = {link.device if side is Side.DEVICE else link.original for _, link in self.loose}
        if names:
            linked |= np.fromiter((op in names for op in self.ids[side]), np.bool_, len(linked))
        return linked

    def several(self, side: Side) -> Int:
        """The ops of *side* linked with more than one op of the other."""
        other = self._ends(Side.GOLDEN if side is Side.DEVICE else Side.DEVICE).astype(np.int64)
        base = int(other.max()) + 1 if len(other) else 1
        pairs = distinct(self._ends(side).astype(np.int64) * base + other)
        counts = np.bincount(pairs // base, minlength=len(self.ids[side]))
        return np.flatnonzero(counts > 1).astype(np.int32)

    def _link(self, row: int) -> LineageLink:
        ports = int(self.device_ports[row]), int(self.original_ports[row])
        device, original = (None if port < 0 else port for port in ports)
        return LineageLink(
            self.ids[Side.DEVICE][int(self.devices[row])],
            self.ids[Side.GOLDEN][int(self.originals[row])],
            self.rules[row],
            device,
            original,
            float(self.confidence[row]),
        )
