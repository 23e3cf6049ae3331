"""Make a dump of every tensor of an original model, or of a stand-in for a device."""

from divergraph.capture.capture_model import CaptureRequest, CaptureResult, capture
from divergraph.capture.stand_ins import StandIn

__all__ = ["CaptureRequest", "CaptureResult", "StandIn", "capture"]
