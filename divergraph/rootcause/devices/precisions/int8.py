"""8-bit integers: where the device's graph quantises, with float32 around the integers.

Reason: what integers lose depends on scales, which differ from tensor to tensor. So quantising is
emulated where the graph gives the scales (``quantisers``), and everything else is float32.
"""

from __future__ import annotations

from divergraph.rootcause.devices.precisions.fp32 import Single


class Integers(Single):
    """Never found from values: the graph's quantisers show that a device quantises."""

    name = "int8"
    dtype = None


PRECISION = INT8 = Integers()
