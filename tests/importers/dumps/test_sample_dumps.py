"""The sample dumps, against golden and against the report of the public comparator."""

from __future__ import annotations

import csv
import json
import struct
from math import isnan

import numpy as np
import pytest

from graphstore.model import TensorIO, TensorOrigin
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.dumps.detect import scan_dumps
from importers.dumps.read import read_array
from importers.layouts import align_to_golden, to_layout

pytestmark = pytest.mark.shared

OUT = TensorIO.OUTPUT
METRICS = ("CosineSimilarity", "RelativeEuclideanDistance")


def reported(path):
    """Cosine and relative Euclidean distance of each compared output with an original."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["GroundTruth"] != "*"]
    return {
        row["TensorIndex"]: tuple(float(row[name]) for name in METRICS)
        for row in rows
        if ":output:" in row["TensorIndex"] and row["CosineSimilarity"] != "NaN"
    }


def measured(device, golden, origins):
    """The same from our reading of the files."""
    found = {}
    for (op, io, port), ref in device.tensors.items():
        origin = origins.get((op, port))
        if io is not OUT or origin is None or not origin.op:
            continue
        expected = read_array(golden.tensors[origin.op, OUT, origin.port])
        values = read_array(ref)
        assert values.shape == ref.shape
        aligned = align_to_golden(
            values, ref.layout, origin.layout, ref.original_shape, expected.shape, groups=ref.groups
        )
        found[f"{op}:output:{port}"] = metrics(aligned, expected)
    return found


def metrics(device, golden):
    x, y = device.astype(np.float64).ravel(), golden.astype(np.float64).ravel()
    both = np.linalg.norm(x) * np.linalg.norm(y)
    # By the comparator's definitions: two zero sides are alike, zero golden is no distance.
    cosine = 1.0 if x.size == 1 or not both else float(x @ y / both)
    distance = float(np.linalg.norm(x - y) / np.linalg.norm(y)) if y.any() else 0.0
    return cosine, distance


def agree(ours, theirs):
    assert set(ours) == set(theirs)
    for tensor, values in theirs.items():
        # The report has no distance (NaN) for some tensors of bool.
        known = [pair for pair in zip(ours[tensor], values, strict=True) if not isnan(pair[1])]
        assert known
        for mine, expected in known:
            assert mine == pytest.approx(expected, rel=2e-5, abs=2e-6), tensor


def test_autoencoder_reads_as_the_comparator_read_it(shared_data, graph_of):
    folder = shared_data / "dumps" / "autoencoder_hh"
    ops = json.loads((folder / "hh_om.json").read_text())["graph"][0]["op"]
    origins = {}
    for op in ops:
        of_op = {entry["key"] for entry in op.get("attr", ())}
        for port, desc in enumerate(op.get("output_desc", ())):
            told = {entry["key"]: entry["value"] for entry in desc.get("attr", ())}
            own_name = "" if "_datadump_original_op_names" in of_op else op["name"]
            origins[op["name"], port] = TensorOrigin(
                told.get("_datadump_origin_name", {}).get("s", own_name),
                told.get("_datadump_origin_output_index", {}).get("i", port),
                told.get("origin_format", {}).get("s"),
            )
    device = scan_dumps(folder / "npu_dump", graph_of(*((op["name"], op["type"]) for op in ops)))
    assert (device.files, len(device.tensors)) == (22, 27)
    named = sorted({origin.op for origin in origins.values() if origin.op})
    golden = scan_golden_dumps(folder / "golden_npy", graph_of(*((name, "") for name in named)))
    agree(measured(device, golden, origins), reported(folder / "reference_result.csv"))


def test_a_dump_of_the_npy_converter_has_its_golden_values(shared_data, graph_of, tmp_path):
    (source,) = (shared_data / "dumps" / "msaccucmp_numpy_to_dump").iterdir()
    (tmp_path / "Add.add.1.1.1795253257147168").write_bytes(source.read_bytes())
    (golden,) = (shared_data / "dumps/autoencoder_hh/golden_npy").glob("add.0.*.npy")
    index = scan_dumps(tmp_path, graph_of(("add", "Add")))
    assert np.array_equal(read_array(index.tensors["add", OUT, 0]), np.load(golden))


def test_weights_a_real_compiler_laid_out_are_those_of_the_framework(shared_data):
    """The .om's filters (FRACTAL_Z) and matrices (FRACTAL_NZ) are bit-equal to golden's."""
    folder = shared_data / "dumps" / "autoencoder_hh"
    weights = weights_partition((shared_data / "om" / "autoencoder_hh_om.om").read_bytes())
    golden = {
        np.load(path).astype(np.float16).tobytes() for path in (folder / "golden_npy").glob("*.npy")
    }
    layouts = []
    for op in json.loads((folder / "hh_om.json").read_text())["graph"][0]["op"]:
        told = {entry["key"]: entry["value"] for entry in op.get("attr", ())}
        desc = told.get("value", {}).get("t", {}).get("desc", {})
        if desc.get("layout") not in ("FRACTAL_Z", "FRACTAL_NZ"):
            continue
        origin = {entry["key"]: entry["value"] for entry in desc["attr"]}
        raw = weights[desc["data_offset"] : desc["data_offset"] + desc["weight_size"]]
        stored = np.frombuffer(raw, np.float16).reshape(desc["shape"]["dim"])
        shape = tuple(origin["origin_shape"]["list"]["i"])
        found = to_layout(stored, desc["layout"], origin["origin_format"]["s"], shape)
        assert found.tobytes() in golden, op["name"]
        layouts.append(desc["layout"])
    assert sorted(layouts) == ["FRACTAL_NZ"] * 3 + ["FRACTAL_Z"] * 4


def weights_partition(model: bytes) -> bytes:
    (count,) = struct.unpack_from("<I", model, 256)
    start = 260 + 12 * count
    entries = (struct.unpack_from("<III", model, 260 + 12 * index) for index in range(count))
    offset, size = next((at, length) for kind, at, length in entries if kind == 1)
    return model[start + offset : start + offset + size]
