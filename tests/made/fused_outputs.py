"""A small model and the same with other weights, of which only input and last output are dumped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from float32_device import KNOWN
from onnx_files import written_model

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.model import Finding, FindingKind

Array = np.ndarray[Any, Any]
Change = Callable[[dict[str, Array]], None]


def cause_of(
    folder: Path,
    shape: tuple[int, ...],
    right: Mapping[str, Array],
    nodes: Sequence[onnx.NodeProto],
    change: Change,
) -> Finding:
    """The cause that is said of the node ``last`` if the device has the weights after *change*."""
    wrong = {name: value.copy() for name, value in right.items()}
    change(wrong)
    golden = written_model(folder / "golden.onnx", nodes, right, shape)
    faulty = written_model(folder / "faulty.onnx", nodes, wrong, shape)
    np.save(folder / "x.npy", np.random.default_rng(5).standard_normal(shape).astype(np.float32))
    for path, name in ((golden, "golden"), (faulty, "run")):
        capture(CaptureRequest(path, folder / name, {"x": folder / "x.npy"}))
    (folder / "device").mkdir()
    for name in ("x", "last"):
        for file in (folder / "run").glob(f"{name}.*"):
            file.rename(folder / "device" / file.name)
    sides = golden, folder / "golden", golden, folder / "device"
    found = compare(CompareRequest(*sides, root_cause=KNOWN))
    return next(each for each in found.findings if each.kind is FindingKind.CAUSE)
