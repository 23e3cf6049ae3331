"""Ascend graphs in the ONNX-like text form GE dumps beside its own (``ge_onnx_*.pbtxt``)."""
