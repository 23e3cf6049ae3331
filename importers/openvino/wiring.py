"""Who feeds whom in a net: edges checked, layers in an order where inputs come first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from pathlib import Path

from graphstore.errors import ImportFormatError
from importers.openvino.net import IrLayer, IrNet, Port, Wire
from importers.openvino.xml_reader import HINT


class Wiring:
    """The edges of *net*, read from *path*, by the input they end at.

    Raises:
        ImportFormatError: an edge names a layer or port that is not there, an input has two
            edges, or layers feed each other in a circle.
    """

    def __init__(self, net: IrNet, path: Path) -> None:
        self._path = path
        self._layers = net.layers
        self._feeding: dict[tuple[int, int], Wire] = {}
        inputs = {number: _places(layer.inputs) for number, layer in net.layers.items()}
        outputs = {number: _places(layer.outputs) for number, layer in net.layers.items()}
        for wire in net.wires:
            self._check(wire, wire.source, outputs, "output")
            self._check(wire, wire.target, inputs, "input")
            other = self._feeding.setdefault(wire.target, wire)
            if other is not wire:
                what = f"this input has an edge already, in line {other.line}"
                raise ImportFormatError(path, what, line=wire.line, hint=HINT)
        self.order = self._ordered()

    def source(self, layer: IrLayer, port: Port) -> tuple[int, int] | None:
        """The layer and port that feed input *port* of *layer*; None if none does."""
        wire = self._feeding.get((layer.id, port.id))
        return None if wire is None else wire.source

    def before(self, layer: IrLayer) -> tuple[IrLayer, int] | None:
        """The layer that feeds the first input of *layer*, and which port of it; None if none
        does."""
        source = self.source(layer, layer.inputs[0]) if layer.inputs else None
        return None if source is None else (self._layers[source[0]], source[1])

    def _check(
        self,
        wire: Wire,
        end: tuple[int, int],
        ports: Mapping[int, Mapping[int, int]],
        kind: str,
    ) -> None:
        layer, port = end
        if layer not in ports:
            what = f"the edge names the layer {layer}, which is not there"
        elif port not in ports[layer]:
            name = self._layers[layer].name
            what = f"the edge names the {kind} {port} of {name!r}, which is not there"
        else:
            return
        raise ImportFormatError(self._path, what, line=wire.line, hint=HINT)

    def _ordered(self) -> tuple[IrLayer, ...]:
        """The layers in file order but where one would come before what it takes."""
        places = {number: place for place, number in enumerate(self._layers)}
        users: dict[int, list[int]] = {}
        waiting = dict.fromkeys(self._layers, 0)
        for wire in self._feeding.values():
            users.setdefault(wire.source[0], []).append(wire.target[0])
            waiting[wire.target[0]] += 1
        ids = list(self._layers)
        ready = [places[number] for number, count in waiting.items() if not count]
        heapq.heapify(ready)
        ordered: list[IrLayer] = []
        while ready:
            number = ids[heapq.heappop(ready)]
            ordered.append(self._layers[number])
            for user in users.get(number, ()):
                waiting[user] -= 1
                if not waiting[user]:
                    heapq.heappush(ready, places[user])
        if len(ordered) < len(ids):
            cycle = [self._layers[number] for number in ids if waiting[number]]
            stuck = _in_circle(cycle, self._feeding.values())
            what = f"the layer {stuck.name!r} feeds itself through other layers"
            raise ImportFormatError(self._path, what, line=stuck.line, hint=HINT)
        return tuple(ordered)


def _places(ports: Iterable[Port]) -> dict[int, int]:
    return {port.id: place for place, port in enumerate(ports)}


def _in_circle(layers: list[IrLayer], wires: Iterable[Wire]) -> IrLayer:
    """One of *layers* that lies in a circle: going back from any of them ends in one."""
    by_id = {layer.id: layer for layer in layers}
    back = {wire.target[0]: wire.source[0] for wire in wires if wire.source[0] in by_id}
    at = layers[0].id
    seen: set[int] = set()
    while at not in seen:
        seen.add(at)
        at = back[at]
    return by_id[at]
