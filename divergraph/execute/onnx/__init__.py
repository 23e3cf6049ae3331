"""The executor for ONNX models, with ONNX Runtime."""
