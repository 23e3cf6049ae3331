"""Tensor layouts of devices: undone, made, and held against golden tensors."""

from importers.layouts.align import align_to_golden
from importers.layouts.make import from_layout
from importers.layouts.tables import LayoutError, UnsupportedLayoutError
from importers.layouts.undo import to_layout

__all__ = ["LayoutError", "UnsupportedLayoutError", "align_to_golden", "from_layout", "to_layout"]
