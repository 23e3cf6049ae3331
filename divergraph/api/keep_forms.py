"""The files in which compilers and converters take the ops to keep: their names and what for."""

from __future__ import annotations

KEEP_FORMS = {
    "keep_dtype": "for ATC's --keep_dtype",
    "customize_dtypes": "for ATC's --customize_dtypes, as float32",
    "block_list": "as nodes, one per line, for onnxconverter-common, ONNX Runtime and NNCF",
    "layer_precisions": "as options of trtexec, which then builds these layers in float32",
    "quantization_overrides": "for QNN's --quantization_overrides, as float16",
}
"""By name, which is that of the option of ``blame`` and of the form that ``ComparedRun.keep_list``
takes; ``blame.keep_lists.LINES`` writes them."""
