"""Caffe's layers as ONNX: its own catalogue, and layers of well-known forks."""
