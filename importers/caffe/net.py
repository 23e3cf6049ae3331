"""A Caffe net as its file describes it, the same for text and binary files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphstore.model import AttrValue, DType, Shape

MAX_DIM = (1 << 63) - 1

_TYPES = """
    AbsVal Accuracy ArgMax BNLL Concat ContrastiveLoss Convolution Data Deconvolution Dropout
    DummyData Eltwise EuclideanLoss Exp Flatten HDF5Data HDF5Output HingeLoss Im2col ImageData
    InfogainLoss InnerProduct LRN MemoryData MultinomialLogisticLoss MVN Pooling Power ReLU Sigmoid
    SigmoidCrossEntropyLoss Silence Slice Softmax Split TanH Threshold WindowData
""".split()
_BY_OLD_NAME = {name.upper(): name for name in _TYPES} | {"SOFTMAXLOSS": "SoftmaxWithLoss"}


def type_of_old(name: str) -> str:
    """The names of layer types of old nets (``layers``) in new ones (``layer``)."""
    return _BY_OLD_NAME.get(name.replace("_", ""), name)


@dataclass(frozen=True, slots=True)
class Blob:
    """A weight: its values lie in the file as *nbytes* bytes from *offset*.

    ``offset`` is None where they do not lie in one piece; ``nbytes`` is 0 where there are none.
    """

    shape: tuple[int, ...]
    dtype: DType = DType.FLOAT32
    offset: int | None = None
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class PhaseRule:
    """A condition of ``include`` or ``exclude``; None and empty parts are no condition."""

    phase: str | None = None
    min_level: int | None = None
    max_level: int | None = None
    stages: tuple[str, ...] = ()
    not_stages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """The state that rules are matched with; an empty phase is unknown."""

    phase: str = ""
    level: int = 0
    stages: tuple[str, ...] = ()

    def meets(self, rule: PhaseRule) -> bool:
        """Whether every condition of *rule* holds. Source: Net::StateMeetsRule of Caffe."""
        return (
            (rule.phase is None or rule.phase == self.phase)
            and (rule.min_level is None or self.level >= rule.min_level)
            and (rule.max_level is None or self.level <= rule.max_level)
            and all(stage in self.stages for stage in rule.stages)
            and not any(stage in self.stages for stage in rule.not_stages)
        )


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. ``attrs`` are its parameters by their path, ``pooling_param.pool``.

    ``shapes`` are the shapes written in its parameters (of Input, DummyData, Reshape).
    """

    name: str
    type: str
    bottoms: tuple[str, ...] = ()
    tops: tuple[str, ...] = ()
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    shapes: tuple[tuple[int, ...], ...] = ()
    include: tuple[PhaseRule, ...] = ()
    exclude: tuple[PhaseRule, ...] = ()
    phase: str = ""
    blobs: tuple[Blob, ...] = ()

    def param(self, name: str) -> AttrValue | None:
        """The parameter called *name* in whatever block it is."""
        ending = f".{name}"
        return next((v for key, v in self.attrs.items() if key.endswith(ending)), None)

    def numbers(self, name: str) -> tuple[int, ...]:
        """The whole numbers a parameter lists, one or several."""
        value = self.param(name)
        listed = value if isinstance(value, tuple) else (value,)
        return tuple(number for number in listed if type(number) is int)


@dataclass(frozen=True, slots=True)
class Net:
    """A net: its declared inputs with their shapes, and its layers in file order."""

    name: str = ""
    inputs: tuple[tuple[str, Shape | None], ...] = ()
    layers: tuple[Layer, ...] = ()
    state: State = field(default_factory=State)

    def in_phase(self, phase: str, stages: Sequence[str] = ()) -> Net:
        """The net of *phase* (and *stages*, if given): without the layers not for it."""
        state = replace(self.state, phase=phase, stages=tuple(stages) or self.state.stages)
        layers = tuple(
            layer
            for layer in self.layers
            if any(map(state.meets, layer.include))
            or not (layer.include or any(map(state.meets, layer.exclude)))
        )
        return replace(self, layers=layers, state=state)


def input_shapes(
    names: Sequence[str], shapes: Sequence[Sequence[int]], dims: Sequence[int]
) -> tuple[tuple[str, Shape | None], ...]:
    """The declared inputs, with a shape each or four ``input_dim`` each, if they are there."""
    if not shapes and len(dims) >= 4:
        shapes = [dims[at : at + 4] for at in range(0, len(dims) - 3, 4)]
    return tuple(
        (name, shape_of(shapes[at]) if at < len(shapes) else None) for at, name in enumerate(names)
    )


def shape_of(dims: Sequence[int]) -> Shape:
    """A shape of *dims*; what cannot be a size is unknown."""
    return tuple(dim if 0 <= dim <= MAX_DIM else None for dim in dims)
