"""Models of other frameworks as ONNX: one row of a table per op type."""
