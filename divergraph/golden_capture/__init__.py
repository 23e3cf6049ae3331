"""Make a dump of every tensor of an original model, or of a stand-in for a device."""

from divergraph.execute.stand_ins import StandIn
from divergraph.execute.translate.coverage import Coverage, coverage
from divergraph.golden_capture.capture_model import CaptureRequest, CaptureResult, capture

__all__ = ["CaptureRequest", "CaptureResult", "Coverage", "StandIn", "capture", "coverage"]
