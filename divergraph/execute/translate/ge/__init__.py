"""Ops of Ascend's graph engine (GE) as ONNX, by GE's own definitions of them."""
