"""The detailed look at pairs over a limit: ULP distances, and where the bad elements are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from divergraph.metrics.pairs.measurement import Measurement
from divergraph.values.pairs import read_pair
from divergraph.values.tensor_pair import TensorPair
from divergraph.values.unread import Unread
from graphstore.model import Figures

_LARGEST = 4 << 20
_IN_ALL = 16 << 20
"""The most elements looked at, of one tensor and in all: it takes ten times as long as the
sweep."""
_MOST = 500
"""The most tensors looked at: a small one takes as long as some thousand elements."""
_A_TENSOR = _IN_ALL // _MOST


def detailed_metrics(
    pairs: Iterable[tuple[int, TensorPair, Measurement]], in_all: int = _IN_ALL
) -> Iterator[tuple[int, Figures]]:
    """The figures of *pairs* with their details added, by the number of each pair. The pairs are
    taken in order until *in_all* elements are used up."""
    for number, pair, measurement in pairs:
        figures, metrics = measurement.figures, measurement.metrics
        if figures is None or metrics is None:
            continue
        if not figures.bad or metrics.elements > min(in_all, _LARGEST):
            continue
        in_all -= max(metrics.elements, _A_TENSOR)
        looked = _looked(pair, figures)
        if looked is not None:
            yield number, looked


def _looked(pair: TensorPair, figures: Figures) -> Figures | None:
    """None for a file that has changed since it was measured, or fits no memory now."""
    from divergraph.metrics.inspection import inspect

    values = read_pair(pair)
    if isinstance(values, Unread):
        return None
    try:
        inspection = inspect(
            values.device,
            values.golden,
            atol=figures.atol,
            rtol=figures.rtol,
            types=values.dtypes,
            layout=pair.layout,
            c0=pair.c0,
        )
    except (ValueError, MemoryError):
        return None
    return inspection.joined_to(figures)
