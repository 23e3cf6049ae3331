"""A model of two ops, and a device's graph and dump of it without a golden dump."""

from __future__ import annotations

from pathlib import Path

import numpy as np

MODEL = (
    '<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] z) '
    "{[relu] y = Relu(x) [neg] z = Neg(y)}"
)
_GRAPH = """graph { name: "g"
op { name: "x" type: "Data" output_desc { dtype: DT_FLOAT } }
op { name: "trans_Cast_0" type: "Cast" input: "x:0" output_desc { dtype: DT_FLOAT16 } }
op { name: "relu" type: "Relu" input: "trans_Cast_0:0" output_desc { dtype: DT_FLOAT16 } }
op { name: "neg" type: "Neg" input: "relu:0" output_desc { dtype: DT_FLOAT16 } }
}
"""


def write_device(folder: Path) -> tuple[Path, Path]:
    """The device's graph, and its dump without the Data op's file; its Neg does nothing."""
    graph, dump = folder / "ge_proto_00001_Build.txt", folder / "npu"
    graph.write_text(_GRAPH)
    dump.mkdir()
    x = np.array([[1, -2, 3], [-4, 5, 0.1]], np.float16)
    for name, value in (
        ("Relu.relu.2.1.1795727148374620.input.0", x),
        ("Relu.relu.2.1.1795727148374620.output.0", np.maximum(x, 0)),
        ("Neg.neg.3.1.1795727148374621.output.0", np.maximum(x, 0)),
    ):
        np.save(dump / f"{name}.npy", value)
    return graph, dump
