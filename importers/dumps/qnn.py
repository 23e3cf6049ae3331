"""Result folders of Qualcomm's ``qnn-net-run`` and ``snpe-net-run``.

For each line of the input list there is a folder ``Result_{n}`` with a file ``{tensor}.raw`` for
each output and, with ``--debug``, for each layer: float32 without any header unless
``--use_native_output_files`` asks for the device's own types (Qualcomm AI Engine Direct SDK,
"Tools"). Converters write other characters of a name as ``_`` and, by default, move channels to
the last axis ("Converters": Axis tracking), so the graph has to tell the shape and the values the
order of axes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphstore.model import DType
from importers.contract import Confidence
from importers.dumps.bare.tensor import BareTensor
from importers.dumps.contract import DumpReader, FilePlace, RawForm, named_tensor

_RESULT = re.compile(r"Result_\d+")
_NATIVE = "_native"
"""Ends the names of files in the device's own types; of which type they are they do not tell."""


class QnnReader(DumpReader):
    """The files of one inference; the number of the folder is the step."""

    name = "qnn"
    reads = "folders Result_{n} of qnn-net-run and snpe-net-run: {tensor}.raw of float32"
    endings = (".raw",)
    names_inputs = False
    step_folder = r"Result_(\d+)"

    def claims(self, name: str, folder: str) -> Confidence:
        """Files are called so everywhere, folders are not."""
        stem = name.removesuffix(".raw")
        is_result = stem != name and not stem.endswith(_NATIVE) and _RESULT.fullmatch(folder)
        return Confidence.SURE if is_result else Confidence.NO

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """The one tensor, of float32 unless the user says otherwise; without a graph of one
        axis."""
        stem = place.file.removesuffix(".raw")
        dtype = form.dtype or DType.FLOAT32
        yield named_tensor(place, stem, dtype, form.shape, alone=True, channels_last=True)
