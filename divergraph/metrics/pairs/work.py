"""Measuring tensor pairs as the work of a job."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from divergraph.jobs.journal import Journal, file_stamp, text_key
from divergraph.metrics.measure import DEFAULT, Wanted
from divergraph.metrics.pairs.measurement import Measurement, measurement_json, measurement_value
from divergraph.metrics.pairs.small_table import PairMeasurements
from divergraph.metrics.pairs.tensor_pairs import (
    AnyPair,
    measured_pair,
    measured_pairs,
    tensor_pair,
)
from divergraph.metrics.sweep import Sweeper
from divergraph.values.tensor_pair import TensorPair
from divergraph.version import __version__
from graphstore.errors import ImportFormatError
from graphstore.model import DumpTensorRef, Reason

_NAMING = 50
"""How many pairs the name of a journal is made of; two jobs with the same name still work."""

_mine = threading.local()


@dataclass(frozen=True, slots=True)
class MeasureWork:
    """Measures one pair after the other, with the buffers of its thread."""

    want: Wanted = DEFAULT

    def __call__(self, item: AnyPair) -> Measurement:
        """The measurement of one pair."""
        return measured_pair(item, self.want, own_sweeper())

    def many(self, items: Sequence[AnyPair]) -> PairMeasurements:
        """The measurement of each pair."""
        return measured_pairs(items, self.want, own_sweeper())

    def lost(self, item: AnyPair, why: str) -> Measurement:
        """The measurement of a pair that cannot be measured on this machine."""
        pair = tensor_pair(item)
        return Measurement(
            reason=Reason.UNREADABLE_DUMP,
            detail=f"{pair.device.path} against {pair.golden.path}: {why}",
            device_dtype=pair.device.dtype,
            golden_dtype=pair.golden.dtype,
        )


@dataclass(frozen=True, slots=True)
class PartWork:
    """Work of a job on parts of *pair*: elements from one place of the flat tensors to another."""

    pair: TensorPair

    def lost(self, item: Sequence[Any], why: str) -> NoReturn:
        """Called for a part that no process can read.

        Raises:
            ImportFormatError: always: a result that leaves a part out would be wrong.
        """
        what = f"elements {item[0]} to {item[1]} against {self.pair.golden.path}: {why}"
        raise ImportFormatError(self.pair.device.path, what)


def own_sweeper() -> Sweeper:
    """The sweeper of this thread, with its buffers."""
    sweeper: Sweeper | None = getattr(_mine, "sweeper", None)
    if sweeper is None:
        sweeper = _mine.sweeper = Sweeper()
    return sweeper


def measuring_journal(pairs: Sequence[AnyPair], work: MeasureWork) -> Journal[Measurement]:
    """The journal of the measurements of *pairs*. A measurement is reused as long as both files,
    the part read of them and this version are the same."""

    def key(number: int) -> str:
        pair = tensor_pair(pairs[number])
        pair_key = (
            _place(pair.device),
            _place(pair.golden),
            pair.origin_layout,
            pair.golden_layout,
        )
        return text_key(list(map(str, _both(pair))), __version__, work, pair.reorder, *pair_key)

    def stamp(number: int) -> str:
        pair = pairs[number]
        if isinstance(pair, TensorPair):
            return file_stamp(_both(pair))
        return file_stamp((pair.device_path, pair.golden_path))

    def name() -> str:
        # A few of many pairs tell this job from others; the keys say what is unchanged in it.
        some = map(tensor_pair, pairs[:: max(1, len(pairs) // _NAMING)])
        paths = [f"{pair.device.path}\t{pair.golden.path}" for pair in some]
        return "\n".join([str(len(pairs)), *paths])

    return Journal(name, key, measurement_json, measurement_value, stamp=stamp)


def _both(pair: TensorPair) -> list[Path]:
    return [*_files(pair.device), *_files(pair.golden)]


def _files(ref: DumpTensorRef) -> list[Path]:
    return [ref.path, *(part.tensor.path for part in ref.parts)]


def _place(ref: DumpTensorRef) -> tuple[object, ...]:
    """The part of a file that is read, and as what."""
    return (
        ref.io.value,
        ref.port,
        ref.dtype,
        ref.shape,
        ref.offset,
        ref.nbytes,
        ref.layout,
        ref.original_shape,
        ref.groups,
        ref.statistics,
        ref.scale,
        ref.zero_point,
    )
