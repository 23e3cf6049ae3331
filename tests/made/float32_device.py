"""Devices whose arithmetic is no question: nobody looks for it.

What a fault leaves of a small model is explained by no arithmetic, so all that are known are tried.
"""

from __future__ import annotations

from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.options import RootCauseOptions

KNOWN = RootCauseOptions(precision=FP32)
"""For a comparison in Python."""
SAID = ("--precision", "fp32")
"""For one of the command line."""
