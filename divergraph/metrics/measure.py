"""One tensor pair measured: the ten metrics, and the figures beside them, from one sweep.

:func:`measure` reads both tensors once for everything but the Kullback-Leibler divergence and the
bad elements, which need the minimum, maximum and norm of the whole first. What costs more (ULP
distances, a histogram of errors, where bad elements are) is left to
:func:`divergraph.metrics.inspection.inspect`, on request or for tensors over a limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from divergraph.metrics.error_places import Places
from divergraph.metrics.figures import figures_of, figures_of_empty
from divergraph.metrics.flat import flat_float32
from divergraph.metrics.limits import notes
from divergraph.metrics.metrics import check_sides, every_metric, scales_for_divergence, ten_metrics
from divergraph.metrics.second_pass import NOTHING, Second
from divergraph.metrics.sums import Sums
from divergraph.metrics.sweep import Sweeper
from divergraph.values.array_types import Array
from graphstore.model import Figures, Metric, MetricSet

__all__ = ["DEFAULT", "PairMeasurement", "Sweeper", "Wanted", "measure", "tolerance"]

RELATIVE_TOLERANCE = 0.01
"""The relative tolerance of an element, also used for golden's root mean square."""

ZERO_TOLERANCE = 1e-6
"""The absolute tolerance where golden is all zero, so its root mean square says nothing."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a sweep is to find. An element is bad if |x - y| > ``atol`` + ``rtol`` * |y|; without
    ``atol`` it is ``rtol`` times the root mean square of golden's finite values
    (:data:`ZERO_TOLERANCE` if those are all zero), so that the scale does not matter. ``places``
    asks where the bad elements are, unless most are bad."""

    atol: float | None = None
    rtol: float = RELATIVE_TOLERANCE
    places: bool = True


DEFAULT = Wanted()


@dataclass(frozen=True, slots=True)
class PairMeasurement:
    """The ten metrics, always of the values cast to float32, and the figures."""

    metrics: MetricSet
    figures: Figures


def measure(
    device: Array,
    golden: Array,
    *,
    want: Wanted = DEFAULT,
    sweeper: Sweeper | None = None,
    layout: str | None = None,
    c0: int = 16,
) -> PairMeasurement:
    """Metrics and figures of *device* (x) against *golden* (y); shapes are not compared. Elements
    are bool, integer or real; memory does not grow with the tensors. Many calls are faster with one
    *sweeper*, which threads must not share. *layout* has a letter for each axis of golden
    (``NCHW``), *c0* is the number of channels in a block of the device's layout: both only serve to
    say where bad elements are.

    Raises:
        LengthMismatchError: the sides have different numbers of elements.
        UnsupportedElementError: complex or non-numeric elements; both are ValueError.
    """
    check_sides(device, golden)
    if device.size == 0:
        metric_notes = dict.fromkeys(Metric, notes.EMPTY)
        equal = every_metric(0.0, cosine_similarity=1.0, notes=metric_notes)
        return PairMeasurement(equal, figures_of_empty(want.atol or 0.0, want.rtol))
    x, y = flat_float32(device), flat_float32(golden)
    sweeper = sweeper or Sweeper()
    both_bool = device.dtype.kind == golden.dtype.kind == "b"
    wanted = NOTHING

    def ask(sums: Sums) -> Second | None:
        nonlocal wanted
        atol = tolerance(sums, want)
        any_bad = sums.worst is not None and sums.worst.size > atol
        places = Places(golden.shape, golden.size // 2) if any_bad and want.places else None
        wanted = Second(scales_for_divergence(sums, both_bool), atol, want.rtol, places)
        return wanted if any_bad or wanted.scales is not None else None

    sums, second = sweeper.both(x, y, ask)
    divergence = second.divergence
    if wanted.scales is None:  # of equal sides, or undefined
        divergence = 0.0 if sums.finite else math.nan
    return PairMeasurement(
        ten_metrics(sums, divergence, both_bool),
        figures_of(
            sums,
            second,
            wanted.atol,
            want.rtol,
            wanted.places.pattern(layout, c0) if wanted.places is not None else "",
        ),
    )


def tolerance(sums: Sums, want: Wanted) -> float:
    """The absolute tolerance *want* asks for, given the sums of the first sweep."""
    if want.atol is not None:
        return want.atol
    if sums.own is None:
        root = math.sqrt(sums.golden.square / sums.elements)
    else:
        golden = sums.own.golden
        root = golden.square.root(golden.elements) if golden.elements else 0.0
    return want.rtol * root if root > 0.0 else ZERO_TOLERANCE
