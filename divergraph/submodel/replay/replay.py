"""Run this part of a model on its inputs and compare with the expected outputs.

    python replay.py            golden inputs, golden outputs
    python replay.py --device   the device's inputs, the device's outputs

Needs numpy and what README.md names. Exit code 0: all outputs are as expected; 1: one is
not, or a file was changed; 2: it cannot be run.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def say(text: str) -> None:
    """Print a line in which names from the model cannot act on the terminal."""
    print("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))


def main() -> int:
    """Run, compare and print how it went."""
    code, lines = replayed("device" if "--device" in sys.argv[1:] else "golden")
    for line in lines:
        say(line)
    return code


def replayed(side: str) -> tuple[int, list[str]]:
    """The exit code, and a line for each output or for what is in the way."""
    import numpy as np

    manifest = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    for name, digest in manifest["sha256"].items():
        if not (HERE / name).is_file():
            return 1, [f"missing: {name}"]
        if hashlib.sha256((HERE / name).read_bytes()).hexdigest() != digest:
            return 1, [f"changed since the export: {name}"]
    if manifest["runner"] not in RUNNERS:
        return 2, ["this part is for the device's own tools: nothing here runs it"]
    feeds = {}
    for tensor in manifest["inputs"]:
        if tensor[side] is None:
            return 2, [f"the {side} value of the input {tensor['name']} was not dumped"]
        value = np.load(HERE / tensor[side], allow_pickle=False)
        feeds[tensor["called"]] = value.astype(tensor["numpy"]) if tensor["numpy"] else value
    missing = [tensor["name"] for tensor in manifest["outputs"] if tensor[side] is None]
    lines = [f"       {name}: its {side} value was not dumped" for name in missing]
    outputs = [tensor for tensor in manifest["outputs"] if tensor[side] is not None]
    if not outputs:
        return 2, lines
    try:
        values = RUNNERS[manifest["runner"]](manifest | {"outputs": outputs}, feeds)
    except ImportError as error:
        return 2, [*lines, f"{error}: install {manifest['needs']}"]
    except Exception as error:  # noqa: BLE001 - engines have no common kind; none may exit with 1
        message = " ".join(str(error).split())[:400]
        return 2, [*lines, f"it cannot be run here: {type(error).__name__}: {message}"]
    limit = manifest["tolerance"][side]
    failed = 0
    for tensor, value in zip(outputs, values, strict=True):
        off = apart(np.asarray(value), np.load(HERE / tensor[side], allow_pickle=False))
        failed += off > limit
        verdict = "FAILED" if off > limit else "ok    "
        lines.append(f"{verdict} {tensor['name']}: relative error {off:.3g}")
    return 1 if failed else 0, lines


def run_onnx(manifest: dict[str, Any], feeds: dict[str, Any]) -> list[Any]:
    """ONNX Runtime, without any optimisation; ops read tensors of 16 bits as they are dumped."""
    import numpy as np
    import onnxruntime

    session = open_onnx(HERE / manifest["files"][0], manifest["inner"])
    wanted = [tensor["called"] for tensor in manifest["outputs"]]
    codes = {t["called"]: t["codes"] for t in (*manifest["inputs"], *manifest["outputs"])}
    if not any(codes.values()):
        return list(session.run(wanted, feeds))
    values = onnxruntime.OrtValue
    feeds_typed = {}
    for name, value in feeds.items():
        if codes[name]:
            code = as_codes(value, codes[name]["bits"], codes[name]["values"])
            feeds_typed[name] = values.ortvalue_from_numpy_with_onnx_type(code, codes[name]["onnx"])
        else:
            feeds_typed[name] = values.ortvalue_from_numpy(np.ascontiguousarray(value))
    ort_values = session.run_with_ort_values(wanted, feeds_typed)
    arrays = []
    for name, ort_value in zip(wanted, ort_values, strict=True):
        if codes[name]:
            raw = ctypes.string_at(ort_value.data_ptr(), ort_value.tensor_size_in_bytes())
            of = of_codes(raw, codes[name]["bits"], codes[name]["values"])
            arrays.append(of.reshape(ort_value.shape()))
        else:
            arrays.append(ort_value.numpy())
    return arrays


def open_onnx(path: Path, halves: list[str]) -> Any:
    """A session of the model in *path*, *halves* rounded, in the form this package knows."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    key = "session.model_external_initializers_file_folder_path"
    options.add_session_config_entry(key, str(HERE))
    model: Any = rounded(path.read_bytes(), halves) if halves else str(path)
    try:
        return onnxruntime.InferenceSession(model, options, providers=providers)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
        newest = re.search(r"max supported IR version: (\d+)", str(error))
        content = model if halves else path.read_bytes()
        if newest is None or content[:1] != b"\x08":
            raise
        # The form of the file is newer than this package; what the ops do, the opsets say.
        older = b"\x08" + bytes([int(newest[1])]) + content[2:]
        return onnxruntime.InferenceSession(older, options, providers=providers)


def rounded(model: bytes, halves: list[str]) -> bytes:
    """*model* whose ops read the tensors *halves* of 16 bits as they are given out.

    ONNX Runtime computes in float32 and leaves out the casts between two ops, even where their
    tensor is an output. It does not between two of ``Identity``.
    """
    names = {name.encode() for name in halves}
    parts = []
    for number, raw, content in fields(memoryview(model)):  # of ModelProto: 7 is the graph
        parts.append(field(7, rounded_graph(content, names)) if number == 7 else raw)
    return b"".join(parts)


def rounded_graph(graph: memoryview, halves: set[bytes]) -> bytes:
    """As above, of a GraphProto: 1 is a node, and of a node 1 an input, 2 an output, 4 the type."""
    parts: list[bytes | memoryview] = []
    for number, raw, node in fields(graph):
        names = [bytes(name) for at, _, name in fields(node) if at == 2] if number == 1 else []
        if halves.isdisjoint(names):
            parts.append(raw)
            continue
        renamed = [
            field(2, bytes(content) + b":unrounded") if at == 2 and content in halves else part
            for at, part, content in fields(node)
        ]
        parts.append(field(1, b"".join(renamed)))
        for name in halves.intersection(names):
            between = name + b":rounded"
            for source, result in ((name + b":unrounded", between), (between, name)):
                identity = field(1, source) + field(2, result) + field(4, b"Identity")
                parts.append(field(1, identity))
    return b"".join(parts)


def fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """The fields of a protobuf message: number, all bytes, and those of a block's content."""
    end = 0
    while end < len(message):
        start = end
        key, at = varint(message, start)
        kind, size = key & 7, 0
        if kind == 0:
            _, at = varint(message, at)
        elif kind == 2:
            size, at = varint(message, at)
        else:
            size = {1: 8, 5: 4}[kind]
        end = at + size
        yield key >> 3, message[start:end], message[at:end]


def varint(message: memoryview, at: int) -> tuple[int, int]:
    """The number that starts at *at*, and where it ends."""
    value = shift = 0
    while True:
        value |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 128:
            return value, at


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message."""
    head = bytearray()
    for value in (number << 3 | 2, len(content)):
        rest = value
        while rest > 127:
            head.append(rest & 127 | 128)
            rest >>= 7
        head.append(rest)
    return bytes(head) + content


def as_codes(values: Any, bits: int, value_texts: list[str] | None) -> Any:
    """float32 *values* as the codes of a type numpy has not; *value_texts* has them by code."""
    import numpy as np

    if value_texts is None:  # bfloat16: the upper half of a float32
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    codes: dict[str, int] = {}
    for code, value in enumerate(value_texts):
        codes.setdefault(float(value).hex(), code)
    numbers = [codes[float(value).hex()] for value in np.asarray(values, np.float64).ravel()]
    return np.array(numbers, f"uint{bits}").reshape(np.shape(values))


def of_codes(raw: bytes, bits: int, value_texts: list[str] | None) -> Any:
    """The float32 values that *raw* codes stand for."""
    import numpy as np

    codes = np.frombuffer(raw, f"uint{bits}")
    if value_texts is None:
        return (codes.astype(np.uint32) << 16).view(np.float32)
    return np.array([float(value) for value in value_texts], np.float32)[codes]


def run_tensorflow(manifest: dict[str, Any], feeds: dict[str, Any]) -> list[Any]:
    """TensorFlow, without oneDNN: it sums in another order."""
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    files, wanted = manifest["files"], [tensor["called"] for tensor in manifest["outputs"]]
    graph = tf.Graph()
    with graph.as_default():
        definition = tf.compat.v1.GraphDef.FromString((HERE / files[0]).read_bytes())
        tf.import_graph_def(definition, name="")
    with tf.compat.v1.Session(graph=graph) as session:
        return list(session.run(wanted, feeds))


def run_caffe(manifest: dict[str, Any], feeds: dict[str, Any]) -> list[Any]:
    """OpenCV's importer of Caffe nets, each layer by itself.

    It names results by layer, not by blob.
    """
    import cv2

    files, wanted = manifest["files"], [tensor["called"] for tensor in manifest["outputs"]]
    net = cv2.dnn.readNetFromCaffe(*(str(HERE / name) for name in files[:2]))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    for name, value in feeds.items():
        net.setInput(value, name)
    makers = makers_of_blobs((HERE / files[0]).read_text(encoding="utf-8"))
    layer_names = set(net.getLayerNames())
    # Some layers it calls by the blob they make.
    layers = [makers[name][0] if makers[name][0] in layer_names else name for name in wanted]
    blobs = net.forwardAndRetrieve(layers)
    return [layer_blobs[makers[name][1]] for name, layer_blobs in zip(wanted, blobs, strict=True)]


def makers_of_blobs(prototxt: str) -> dict[str, tuple[str, int]]:
    """By blob the layer that makes it, and the number of that output."""
    makers: dict[str, tuple[str, int]] = {}
    name, count = "", 0
    for line in prototxt.splitlines():
        key, _, value = line.partition(": ")
        if key == "  name":
            name, count = json.loads(value, strict=False), 0
        elif key == "  top":
            makers[json.loads(value, strict=False)] = name, count
            count += 1
    return makers


def apart(values: Any, expected: Any) -> float:
    """|made - expected| / |expected|; infinite if shapes, NaN or infinities differ."""
    import numpy as np

    if values.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind in "OSU" or values.dtype.kind in "OSU":
        return (
            0.0 if list(map(text, values.flat)) == list(map(text, expected.flat)) else float("inf")
        )
    values, expected = values.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    finite = np.isfinite(expected)
    if not np.array_equal(values[~finite], expected[~finite], equal_nan=True):
        return float("inf")
    difference = float(np.linalg.norm(values[finite] - expected[finite]))
    scale = float(np.linalg.norm(expected[finite]))
    return 0.0 if difference == 0 else float("inf") if scale == 0 else difference / scale


def text(value: Any) -> str:
    """An element of a tensor of text, which some programs give as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


RUNNERS = {"onnx": run_onnx, "tf": run_tensorflow, "caffe": run_caffe}

if __name__ == "__main__":
    sys.exit(main())
