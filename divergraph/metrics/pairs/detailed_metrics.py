"""The closer look at pairs that are over a limit: ULP distances, and where they are bad."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from divergraph.metrics.pairs.measurement import Measurement
from divergraph.metrics.pairs.tensor_pairs import TensorPair, channels_of_a_block, read_pair
from graphstore.errors import ImportFormatError
from graphstore.model import Figures
from importers.layouts import LayoutError

_LARGEST = 4 << 20
_IN_ALL = 16 << 20
"""Elements looked at, of one tensor and of all: it takes ten times as long as the sweep."""
_MOST = 500
"""Tensors looked at: a small one takes as long as some thousand elements."""
_A_TENSOR = _IN_ALL // _MOST


def detailed_metrics(
    pairs: Iterable[tuple[int, TensorPair, Measurement]], in_all: int = _IN_ALL
) -> Iterator[tuple[int, Figures]]:
    """The figures of *pairs* with what a closer look adds, by the number of each. Of many or
    huge pairs those come first that are first, and *in_all* elements are the end."""
    for number, pair, found in pairs:
        figures, metrics = found.figures, found.metrics
        if figures is None or metrics is None or pair.reorder is not None:
            continue
        if not figures.bad or metrics.elements > min(in_all, _LARGEST):
            continue
        in_all -= max(metrics.elements, _A_TENSOR)
        looked = _looked(pair, found, figures)
        if looked is not None:
            yield number, looked


def _looked(pair: TensorPair, found: Measurement, figures: Figures) -> Figures | None:
    """None for a file that has changed since it was measured, or fits no memory now."""
    from divergraph.metrics.inspection import inspect

    try:
        device, golden = read_pair(pair)
        inspection = inspect(
            device,
            golden,
            atol=figures.atol,
            rtol=figures.rtol,
            types=(found.device_dtype, found.golden_dtype),
            layout=pair.golden_layout or pair.origin_layout,
            c0=channels_of_a_block(pair.device),
        )
    except (ImportFormatError, LayoutError, ValueError, MemoryError):
        return None
    return inspection.joined_to(figures)
