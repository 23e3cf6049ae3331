"""The forms an ONNX model is written in."""

from __future__ import annotations

from enum import Enum


class Form(Enum):
    """How a model is written."""

    BINARY = "a binary ONNX model"
    TEXT = "an ONNX model as protobuf text"
    JSON = "an ONNX model as JSON"
    SYNTAX = "an ONNX model in ONNX text syntax"
