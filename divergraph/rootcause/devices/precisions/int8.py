"""8-bit integers: where the device's graph quantises, with float32 around the integers.

Reason: what integers lose is said by scales, which differ from tensor to tensor; so they are
imitated where the graph shows them (``quantisers``), and all else is as in float32.
"""

from __future__ import annotations

from divergraph.rootcause.devices.precisions.fp32 import Single


class Integers(Single):
    """Never found from values: float32 dumps of it are told by the graph's quantisers."""

    name = "int8"
    dtype = None


PRECISION = INT8 = Integers()
