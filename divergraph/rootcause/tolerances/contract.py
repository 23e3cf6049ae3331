"""What a tolerance is: something healthy devices do that changes how an error is to be measured.

Each is one module of this folder with a ``TOLERANCE``, or an entry point of the group
``divergraph.tolerances``. It is given one output at a time and widens the noise floor, narrows
it, excludes elements, or does nothing. Those that acted are kept (``origins --explain``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import TypeAlias

from divergraph.execute.contract import Array, Executor, RunnableSubgraph
from divergraph.files.discovered import discovered
from divergraph.rootcause.devices.precision import SMALLEST_NORMAL_FP32
from divergraph.rootcause.devices.quantised_ops import QuantisedOps
from divergraph.rootcause.devices.quantisers import Quantiser
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.tolerances.masks import Mask
from divergraph.rootcause.tolerances.noise_floor import Emulation

ENTRY_POINT_GROUP = "divergraph.tolerances"


class Stage(IntEnum):
    """When tolerances are asked, in this order."""

    PLACES = 1
    """Before the floor is computed: which elements count at all."""
    KNOWN = 2
    """Always: the emulation is known to miss something, such as scales the graph does not give."""
    SUSPICIOUS = 3
    """Only if the error would be suspect: other explanations of it, and errors the norm hides."""
    HIDDEN = 4
    """Always: kinds of error below the floor that rounding does not make."""
    LAST = 5
    """Only if the error would be guilty: is it large enough to matter?"""


@dataclass(frozen=True, slots=True)
class OpContext:
    """What is known of one output besides its values.

    ``given`` holds the arrays its group was fed, by golden tensor name; ``arithmetic`` emulates
    groups; ``inputs_error`` is the largest relative error of a fed tensor, None if none is known;
    ``hidden_bodies`` says that the device may quantise inside bodies; ``others`` are the further
    arithmetics that ops of this run are computed in. ``stands_out`` is the suspicion for standing
    out among all ops of the run, 0 where it does not or the run is not known yet.
    """

    executor: Executor
    golden: OpGraph
    options: RootCauseOptions
    quantised: QuantisedOps
    hidden_bodies: bool
    group: Group
    given: Mapping[str, Array]
    arithmetic: Emulation
    inputs_error: float | None = None
    others: tuple[Emulation, ...] = ()
    stands_out: float = 0.0

    @property
    def ops(self) -> int:
        """How many golden ops were run as one."""
        return len(self.group.ops)

    @property
    def quantises(self) -> bool:
        """Whether the device quantises in the group: where nothing but weights is quantised, only
        if it reads one of these."""
        quantisers = self.arithmetic.quantisers
        if self.group.integers or not quantisers.only_weights:
            return bool(self.group.integers or quantisers.by_tensor)
        return self.quantised.kind(self.group) is not None

    def smallest_normal(self, estimate: ToleranceEstimate) -> float:
        """The smallest normal number of the type the output is held in: that of float32 where the
        values have more bits than the arithmetic, since then small numbers survive."""
        precision = self.arithmetic.precision
        narrow = precision.fits(estimate.device)
        return precision.smallest_normal if narrow else SMALLEST_NORMAL_FP32


@dataclass(frozen=True, slots=True)
class ToleranceEstimate:
    """What an output is compared with, and how far off it may be. All arrays have r's shape.

    ``reference`` is r, NaN at excluded elements; ``device`` is d. ``floor`` is relative to |r|,
    ``absolute`` a Euclidean norm of errors that never count. ``masked`` are the elements that
    stand for infinity: both sides are 0 there, or clipped to the type's largest value.
    ``imitations`` are outputs healthy arithmetic may have made, the emulation first. ``expected``
    is the exact output of a quantised op, where it takes the place of r. ``unseen`` is the flat
    floor of what is not emulated, 0 if all is. No suspicion exceeds ``bound``.
    """

    reference: Array
    device: Array
    floor: float = 0.0
    absolute: float = 0.0
    masked: Mask | None = None
    imitations: tuple[Array, ...] = ()
    expected: Array | None = None
    unseen: float = 0.0
    bound: float = math.inf

    @property
    def emulation(self) -> Array | None:
        """e, the group's output in the device's arithmetic; None where it could not be run."""
        return self.imitations[0] if self.imitations else None

    @property
    def are_floats(self) -> bool:
        """Whether both sides are non-empty floats: only those are rounded."""
        sides = (self.device, self.reference)
        return self.reference.size > 0 and all(side.dtype.kind == "f" for side in sides)


def outputs_on(
    context: OpContext, inputs: Sequence[Mapping[str, Array]], shape: tuple[int, ...]
) -> list[Array]:
    """The output of the context's group, in *shape*, on each of *inputs* (by golden tensor name);
    those that do not run, or give another number of elements, are left out."""
    name = context.golden.name(context.group.golden)
    feeds = tuple(feed.tensor for feed in context.group.feeds)
    subgraphs = [RunnableSubgraph(str(n), feeds, (name,)) for n in range(len(inputs))]
    results = context.executor.run_subgraphs(
        subgraphs, lambda piece: inputs[int(piece.key)], memory=context.options.memory // 2
    )
    outputs = [result.values.get(name) for result in results]
    size = math.prod(shape)
    return [
        output.reshape(shape) for output in outputs if output is not None and output.size == size
    ]


def input_quantisers(context: OpContext) -> Iterator[tuple[str, Quantiser]]:
    """The quantiser each float input of the group came through, or goes through, by its name."""
    quantisers = context.arithmetic.quantisers
    for feed in context.group.feeds if quantisers.by_tensor else ():
        if context.given[feed.tensor].dtype.kind == "f":
            maker = None if feed.device is None else quantisers.behind(feed.device, feed.tensor)
            reading = (quantisers.reads(op, feed.tensor) for op in context.group.ops)
            quantiser = maker or next(
                (candidate for candidate in reading if candidate is not None), None
            )
            if quantiser is not None:
                yield feed.tensor, quantiser


Numbers: TypeAlias = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Widen:
    """Raise the floor to at least ``floor`` (relative) and ``absolute`` (a norm of errors), limit
    suspicion to ``bound``, and add ``imitations``: outputs healthy arithmetic may have made.
    ``numbers`` are shown by ``--explain``."""

    floor: float = 0.0
    absolute: float = 0.0
    bound: float = math.inf
    imitations: tuple[Array, ...] = ()
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Narrow:
    """Lower the floor to at most ``floor`` (relative) and ``absolute`` (a norm of errors).
    ``expected`` replaces the reference when a cause is looked for."""

    floor: float
    absolute: float = math.inf
    expected: Array | None = None
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exclude:
    """Leave elements out: those that are NaN in ``reference``, and those of ``mask``."""

    reference: Array | None = None
    mask: Mask | None = None
    numbers: Numbers = field(default_factory=dict)


Action: TypeAlias = Widen | Narrow | Exclude | None
Apply: TypeAlias = Callable[[OpContext, ToleranceEstimate], Action]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A tolerance. ``order`` is its place within its ``stage``; ``reason`` says for ``--explain``
    what devices do; with ``handed_on`` it is asked of ops that compute nothing, too.
    """

    name: str
    stage: Stage
    order: int
    reason: str
    apply: Apply
    handed_on: bool = False


@cache
def tolerances() -> tuple[Tolerance, ...]:
    """All installed tolerances in the order in which they are asked."""
    entries = discovered(str(__package__), "TOLERANCE", ENTRY_POINT_GROUP)
    installed = [entry for entry in entries if isinstance(entry, Tolerance)]
    return tuple(
        sorted(installed, key=lambda tolerance: (tolerance.stage, tolerance.order, tolerance.name))
    )
