"""The request for the values of a pair: small, frozen, and picklable for workers."""

from __future__ import annotations

from dataclasses import dataclass

from graphstore.model import DumpTensorRef, Reorder

DEVICE_LAYOUTS = ("NC1HWC0", "FRACTAL", "NDC1HWC0", "C1HWN")
_USUAL_C0 = 16


@dataclass(frozen=True, slots=True)
class TensorPair:
    """Two dumped tensors to compare. ``origin_layout`` is golden's layout by the device graph,
    ``golden_layout`` by the golden graph; None where the graph does not say. ``reorder`` leads from
    the device's axes to golden's where no layout does."""

    device: DumpTensorRef
    golden: DumpTensorRef
    origin_layout: str | None = None
    golden_layout: str | None = None
    reorder: Reorder | None = None

    @property
    def nbytes(self) -> int:
        """Bytes read for it, as far as known."""
        return self.device.nbytes + self.golden.nbytes

    @property
    def layout(self) -> str | None:
        """The layout of the aligned values; the golden graph knows it best."""
        return self.golden_layout or self.origin_layout

    @property
    def c0(self) -> int:
        """Channels in a block (C0): the last axis of a blocked device layout, 16 for any other."""
        device = self.device
        return device.shape[-1] if is_blocked(device) and device.shape else _USUAL_C0

    @property
    def is_stored_alike(self) -> bool:
        """True for two device tensors in one layout whose original shape is unknown: they are
        compared as stored, padding included."""
        device, golden = self.device, self.golden
        return (
            device.layout == golden.layout is not None
            and device.shape == golden.shape
            and not golden.original_shape
            and not device.original_shape
        )


def is_blocked(ref: DumpTensorRef) -> bool:
    """Whether a tensor lies in blocks of a device layout, padded perhaps."""
    return ref.layout is not None and ref.layout.startswith(DEVICE_LAYOUTS)
