"""TensorFlow's ops as ONNX: one row per op type, and the step of a model they run in."""
