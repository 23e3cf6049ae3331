"""Engines of TensorRT, as its inspector describes them."""
