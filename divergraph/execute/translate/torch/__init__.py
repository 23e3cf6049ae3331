"""PyTorch calls as a dump records them, as ONNX: a row for each kind of call."""
