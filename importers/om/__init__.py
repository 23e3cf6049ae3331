"""Ascend offline models (``.om``): the graph they run and the weights they hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importers.om.constants import OfflineWeights

__all__ = ["weights"]


def weights(path: Path | str) -> OfflineWeights:
    """The weights of the offline model in *path*: arrays by the ids its graph gives the ops.

    The mapping reads an array from the mapped file when it is asked for it, see
    :class:`importers.om.constants.OfflineWeights`.

    Raises:
        ImportFormatError: it is no offline model, or damaged; with the byte offset.
    """
    from importers.om.constants import read_weights

    return read_weights(Path(path))
