"""Tensor layouts of devices: undone, made, and held against golden tensors."""

from importers.layouts.align import align_to_golden
from importers.layouts.convert import from_layout, to_layout
from importers.layouts.tables import LayoutError, UnsupportedLayoutError

__all__ = ["LayoutError", "UnsupportedLayoutError", "align_to_golden", "from_layout", "to_layout"]
