"""What the layers of a runtime model say: originals, order, precision and layout.

``compiled_model.get_runtime_model()`` gives the ops as the plug-in runs them. Each lists the
names of the ops it was made of, in the order in which they were fused: its output is the output of
the last one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from graphstore.model import COMPUTE_TYPE, AttrValue, Tensor, TensorOrigin
from importers.kept import split_reference
from importers.openvino.xml_reader import IrLayer, IrNet, dtype_of, names_in, value_of, whole_number

ORIGINALS = "originalLayersNames"
CONSTANTS = frozenset({"Const", "Constant"})
Before: TypeAlias = Callable[[IrLayer], tuple[IrLayer, int] | None]
"""Tells the layer, and which port of it, that feeds the first input of a layer."""

_ORDER = "execOrder"
_PRECISION = "runtimePrecision"
_MADE = re.compile(r"Result_\d+")
"""A name OpenVINO gives a Result that nobody named."""
_HANDING_ON = frozenset({"Reorder", "Convert"})
_NUMBER = re.compile(r"\.\d+$")
_SINK = re.compile(r"/sink_port_\d+$")
"""What frontends put behind the name of a tensor to name its Result."""


def is_runtime(net: IrNet) -> bool:
    """Whether *net* is a runtime model: there every layer tells its originals."""
    return any(ORIGINALS in layer.data for layer in net.layers.values())


def originals(layer: IrLayer) -> tuple[str, ...]:
    """The names of the ops *layer* was made of; none if the plug-in added it."""
    return names_in(layer.data.get(ORIGINALS, ""))


def is_added(layer: IrLayer, before: Before) -> bool:
    """Whether the plug-in put *layer* behind another to have its values in another order or type:
    it lists no original, or only what is before it, by its number."""
    if layer.type not in _HANDING_ON or (fed := before(layer)) is None:
        return False
    return all(_NUMBER.sub("", name) == fed[0].name for name in originals(layer))


def sequence(layer: IrLayer, place: int) -> int:
    """When the layer runs; *place* where it does not say."""
    number = whole_number(layer.data.get(_ORDER, ""))
    return place if number is None or number < 0 else number


def runtime_attrs(layer: IrLayer) -> dict[str, AttrValue]:
    """All that the layer says of itself but its originals, which are the op's own; and the type it
    computes in, which need not be that of its outputs."""
    attrs = {name: value_of(text) for name, text in layer.data.items() if name != ORIGINALS}
    computes_in = dtype_of(layer.data.get(_PRECISION, ""))
    return attrs if computes_in is None else {**attrs, COMPUTE_TYPE: computes_in.value}


@dataclass(frozen=True, slots=True)
class ResultNames:
    """What the Results behind the outputs of a runtime model are called, by layer and port."""

    by_output: dict[tuple[int, int], list[str]]

    @classmethod
    def of(cls, results: Iterable[IrLayer], before: Before) -> ResultNames:
        """From every Result; *before* tells what feeds the first input of a layer."""
        names_of: dict[tuple[int, int], list[str]] = {}
        for result in results:
            fed = before(result)
            while fed is not None and is_added(fed[0], before):
                further = before(fed[0])
                if further is None or further[0].type in CONSTANTS:
                    break
                fed = further
            if fed is not None and not _MADE.fullmatch(result.name):
                key = (fed[0].id, fed[1])
                names_of.setdefault(key, []).append(_SINK.sub("", result.name))
        return cls(names_of)

    def tensor(self, layer: IrLayer, place: int) -> Tensor:
        """Output *place* of *layer*, and the original tensor it stands for.

        A Result that was named after what it takes, ``op:port``, says this exactly.
        """
        port = layer.outputs[place]
        made_of = originals(layer)
        last = made_of[-1] if made_of else ""
        names = self.by_output.get((layer.id, port.id), [])
        named = [name for name in names if split_reference(name)[0] == last] or names
        name = named[0] if named else ""
        op, at = split_reference(name) if ":" in name else (last, place)
        dtypes = [dtype_of(text) for text in layer.data.get("outputPrecisions", "").split(",")]
        layouts = layer.data.get("outputLayouts", "").split(",")
        return Tensor(
            name or (last if place == 0 else f"{last}:{place}") or _own_name(layer, place),
            (dtypes[place] if place < len(dtypes) else None) or dtype_of(port.precision),
            port.dims,
            (layouts[place] if place < len(layouts) else "") or None,
            TensorOrigin(op, at) if made_of else None,
        )


def _own_name(layer: IrLayer, place: int) -> str:
    return layer.name if place == 0 else f"{layer.name}:{place}"
