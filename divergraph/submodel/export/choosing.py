"""Which writer of parts serves a graph: one a framework."""

from __future__ import annotations

from collections.abc import Mapping

from divergraph.submodel.export.contract import PartFormat, PartWriter
from graphstore.errors import InputError
from graphstore.model import Framework, ModelGraph

_OWN: Mapping[Framework, PartFormat] = {
    Framework.ONNX: PartFormat.ONNX,
    Framework.TENSORFLOW: PartFormat.TENSORFLOW,
    Framework.CAFFE: PartFormat.CAFFE,
    Framework.ASCEND: PartFormat.GE,
}


def own_format(graph: ModelGraph) -> PartFormat:
    """The form of the graph's own framework.

    Raises:
        InputError: parts of this framework's models cannot be written.
    """
    found = _OWN.get(graph.framework)
    if found is None:
        raise InputError(
            f"parts of a {graph.framework} model cannot be written",
            hint="compare with its ONNX export as golden model",
        )
    return found


def writer_of(wanted: PartFormat, graph: ModelGraph) -> PartWriter:
    """The writer of *wanted* for parts of *graph*.

    Raises:
        InputError: the graph is of another framework.
    """
    own = own_format(graph)
    if wanted is not own:
        raise InputError(
            f"a part of a {graph.framework} model cannot be written as {wanted}",
            hint=f"--format {own}",
        )
    if wanted is PartFormat.ONNX:
        from divergraph.submodel.export.onnx_export import write_onnx_part

        return write_onnx_part
    if wanted is PartFormat.TENSORFLOW:
        from divergraph.submodel.export.tensorflow_export import write_tensorflow_part

        return write_tensorflow_part
    if wanted is PartFormat.CAFFE:
        from divergraph.submodel.export.caffe_export import write_caffe_part

        return write_caffe_part
    from divergraph.submodel.export.ge_export import write_ge_part

    return write_ge_part
