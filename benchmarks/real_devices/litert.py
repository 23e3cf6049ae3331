"""Healthy runs of LiteRT (TensorFlow Lite): its optimised kernels and its reference kernels.

    python benchmarks/real_devices/litert.py --results litert.jsonl

The golden side is ONNX Runtime in float32 on what tf2onnx makes of the network, the device LiteRT
on what TensorFlow's converter makes of it. Needs the extra ``divergraph[real-devices]``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from analysis import analysed
from litert_models import KINDS, NETWORKS, made
from result_tables import tables

from divergraph.golden_capture import CaptureRequest, capture

KERNELS = {"xnnpack": OpResolverType.AUTO, "reference": OpResolverType.BUILTIN_REF}


def dump(model: Path, kernels: str, value: np.ndarray, folder: Path) -> None:
    """Every tensor of a run of *model* on *value* by its number, and the names in mapping.csv."""
    folder.mkdir()
    interpreter = Interpreter(
        str(model),
        experimental_op_resolver_type=KERNELS[kernels],
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], value)
    interpreter.invoke()
    names = []
    for tensor in interpreter.get_tensor_details():
        number = tensor["index"]
        try:
            found = interpreter.get_tensor(number)
        except ValueError:  # it was not computed, or taken into another op
            continue
        np.save(folder / f"{number}.npy", found)
        names.append(f"{number},{tensor['name']}\n")
    (folder / "mapping.csv").write_text("".join(names), encoding="utf-8")


def line_of(golden: Path, dumped: Path, model: Path, kernels: str, value: np.ndarray) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        device = Path(folder) / "device"
        dump(model, kernels, value, device)
        return analysed([golden, dumped, model, device])


def main() -> None:
    """Run every network in every kind on both kernels, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(NETWORKS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--results", type=Path, default=Path("litert.jsonl"))
    given = parser.parse_args()
    for name in given.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            golden, value = made(name, Path(folder))
            feed = Path(folder) / "feed.npy"
            np.save(feed, value)
            dumped = Path(folder) / "golden"
            capture(CaptureRequest(golden, dumped, inputs={"": feed}))
            for kind in given.kinds.split(","):
                model = golden.with_suffix(f".{kind}.tflite")
                for kernels in KERNELS if model.exists() else ():
                    found = line_of(golden, dumped, model, kernels, value)
                    line = {"model": name, "device": f"litert-{kind}-{kernels}", "kind": ""}
                    with given.results.open("a", encoding="utf-8") as file:
                        file.write(f"{json.dumps({**line, 'seed': 0, **found})}\n")
                    said = {key: found.get(key) for key in ("verdict", "judged", "error")}
                    guilty = sum(each[2] for each in found.get("ranking", ()))
                    print(line["model"], line["device"], said, guilty, "guilty")
    print(tables(given.results))


if __name__ == "__main__":
    main()
