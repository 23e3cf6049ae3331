"""The oracle that runs a part as ONNX Runtime would on a weaker device."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from divergraph.execute.contract import Array
from divergraph.execute.stand_ins import StandIn, stand_in_outputs
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.precisions.int8 import INT8
from divergraph.submodel.export.onnx_export import export_onnx
from divergraph.submodel.minimize.oracle import OracleOptions
from divergraph.submodel.minimize.part_values import NoValueError, RunningOracle
from divergraph.submodel.run_parts import RunParts
from divergraph.submodel.selection import Selection
from graphstore.errors import InputError
from graphstore.model import Framework
from graphstore.own_folder import OwnFolder

_PRECISION = {StandIn.FP16: FP16, StandIn.INT8: INT8, StandIn.OPTIMIZED: FP32}


class StandInOracle(RunningOracle):
    """Converts each part to *argument* (``fp16``, ``int8`` or ``optimized``) and runs it.

    Raises:
        InputError: another argument, or the golden model is not ONNX.
    """

    def __init__(self, parts: RunParts, argument: str, options: OracleOptions) -> None:
        if argument not in {kind.value for kind in _PRECISION}:
            listed = ", ".join(f"stand-in:{kind}" for kind in _PRECISION)
            raise InputError(f"there is no stand-in {argument!r}", hint=f"there are: {listed}")
        if parts.golden.framework is not Framework.ONNX:
            raise InputError(
                f"stand-ins run ONNX models, the golden model is a {parts.golden.framework} one",
                hint="--oracle evidence, or --oracle command with a program of yours",
            )
        self._kind = StandIn(argument)
        super().__init__(parts, options.factor, _PRECISION[self._kind])
        # All parts below one folder, so that one process runs them.
        self._place = OwnFolder("probe")
        self.identity = f"stand-in:{argument} x{options.factor:g}"

    def run(self, part: Selection, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """What the converted part makes."""
        frozen = {tensor.name: feeds[tensor.name] for tensor in part.inputs if tensor.frozen}
        values = {name: value for name, value in feeds.items() if name not in frozen}
        with tempfile.TemporaryDirectory(dir=self._place.path) as place, self._lock:
            plain = Path(place) / "part.onnx"
            wanted = [tensor.name for tensor in part.outputs]
            try:
                path = self._parts.sources.golden_path
                export_onnx(self._parts.golden, path, part, plain, frozen)
                return stand_in_outputs(plain, self._kind, values, wanted)
            except InputError as error:
                raise NoValueError(f"it cannot be made {self._kind}: {error.what}") from error

    def close(self) -> None:
        """Let go of the golden model, and remove the parts."""
        self._place.remove()
        super().close()
