"""Recorded PyTorch calls as an ONNX model, ``dump.onnx``, whose inputs are what the calls read, and
as a program that calls PyTorch itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from divergraph.execute.translate.contract import KnownTensor, NeedsValueError, NotTranslatedError
from divergraph.execute.translate.plugged import with_plugged
from divergraph.execute.translate.torch.alone import as_read
from divergraph.execute.translate.torch.catalogue import ROWS
from divergraph.execute.translate.torch.exported import ExportedWeights
from divergraph.execute.translate.translation import NO_CONSTANTS, Translation
from divergraph.submodel.export.calls_script import SCRIPT, write_script
from divergraph.submodel.export.contract import PartSource, WrittenPart
from divergraph.submodel.selection import BoundaryTensor, Selection
from graphstore.errors import ExecutionError, InputError
from importers.kept import some
from importers.torch_export.graph import FORMAT


def write_calls_part(source: PartSource, part: Selection, folder: Path) -> WrittenPart:
    """Write ``dump.onnx``: the rows of the part's calls. What has 16 bits is float32 in it.

    Raises:
        InputError: a call has no row, or one that does not cover it.
    """
    is_exported = source.graph.format == FORMAT
    weights = ExportedWeights(source.model) if is_exported else NO_CONSTANTS
    translation = Translation(with_plugged(ROWS), weights)
    for tensor in part.inputs:
        translation.give(tensor.name, _known_tensor(tensor))
    ops = source.graph.op_index()
    for op in part.ops:
        try:
            call = ops[op]
            translation.add(replace(call, outputs=tuple(map(as_read, call.outputs))))
        except (NotTranslatedError, NeedsValueError, ExecutionError) as error:
            raise InputError(f"{op} cannot be written as ONNX: {error}") from error
    model, constants = translation.model([tensor.name for tensor in part.outputs])
    inputs = [value for value in model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    for name, value in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    path = folder / "dump.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    if is_exported:
        return WrittenPart((path,), {})
    left_out = write_script(source.graph, part, folder)
    notes = (f"{SCRIPT} leaves out {some(left_out)}: no call of a function",) if left_out else ()
    return WrittenPart((path,), {}, notes=notes)


def _known_tensor(tensor: BoundaryTensor) -> KnownTensor:
    if tensor.shape is None or None in tensor.shape:
        raise InputError(f"the shape of {tensor.name} is not known: was it dumped?")
    dtype = None if tensor.dtype is None else tensor.dtype.numpy
    # bfloat16 has no type in numpy, and float16 is computed in float32, as its values are read
    narrow = dtype is None or dtype == np.float16
    return KnownTensor(
        np.dtype(np.float32) if narrow or dtype is None else dtype,
        tuple(size for size in tensor.shape if size is not None),
    )
