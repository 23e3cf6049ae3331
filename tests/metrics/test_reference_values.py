"""Agreement with what the reference comparator wrote for the same dumps, row by row."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from divergraph.metrics.limits.thresholds import Thresholds
from divergraph.metrics.measure import measure
from divergraph.metrics.metrics import overflow_flag
from graphstore.model import (
    Framework,
    GraphKind,
    InputRef,
    Level,
    Metric,
    ModelGraph,
    Op,
    Tensor,
    TensorIO,
    TensorOrigin,
    TensorRef,
)
from importers.dumps.detect import scan_dumps
from importers.dumps.read import read_array
from importers.ge_proto.importer import read_ge_text
from importers.layouts.align import align_to_golden

pytestmark = pytest.mark.shared

PASSED_THROUGH = ("Cast", "TransData")


def graph_of_json(path: Path) -> ModelGraph:
    """The parts of a converted offline model that say what its tensors stand for."""
    ops = tuple(
        Op(
            id=op["name"],
            name=op["name"],
            type=op["type"],
            inputs=tuple(_input(text) for text in op.get("input", ()) if not text.endswith(":-1")),
            outputs=tuple(
                _output(f"{op['name']}:{port}", attrs_of(desc))
                for port, desc in enumerate(op.get("output_desc", ()))
            ),
        )
        for op in json.loads(path.read_text("utf-8"))["graph"][0]["op"]
    )
    return ModelGraph("hh_om_0", GraphKind.DEVICE, Framework.ASCEND, "json", ops)


def _input(text: str) -> InputRef | None:
    name, _, port = text.rpartition(":")
    return InputRef(text, TensorRef(name, int(port))) if name else None


def _output(name: str, attrs: dict) -> Tensor:
    origin = attrs.get("_datadump_origin_name", {}).get("s", "")
    layout = attrs.get("_datadump_origin_format", attrs.get("origin_format", {})).get("s")
    port = attrs.get("_datadump_origin_output_index", {}).get("i", 0)
    return Tensor(name, origin=TensorOrigin(origin, port, layout))


def attrs_of(desc: dict) -> dict:
    return {entry["key"]: entry["value"] for entry in desc.get("attr", ())}


class Case:
    """A device graph with both sides' dumps, read the way the reference read them."""

    def __init__(self, graph: ModelGraph, device: Path, golden: Path) -> None:
        self._ops = graph.op_index()
        self._dumps = scan_dumps(device, graph).tensors
        self._golden = golden

    def pair(self, tensor_index: str) -> tuple[np.ndarray, np.ndarray]:
        name, io, port = tensor_index.rsplit(":", 2)
        ref = self._dumps[name, TensorIO(io), int(port)]
        origin = self._origin(name, TensorIO(io), int(port))
        golden = self._golden_array(origin)
        device = align_to_golden(
            read_array(ref),
            ref.layout,
            origin.layout,
            ref.original_shape,
            golden.shape,
            groups=ref.groups,
        )
        return device, golden

    def _origin(self, name: str, io: TensorIO, port: int) -> TensorOrigin:
        if io is TensorIO.INPUT:
            return self._origin_of_input(name, port)
        op = self._ops[name]
        origin = op.outputs[port].origin if port < len(op.outputs) else None
        if origin is not None and origin.op:
            return origin
        if op.type in PASSED_THROUGH:
            return self._origin_of_input(name, 0)
        return TensorOrigin(name, port, layout=origin.layout if origin else None)

    def _origin_of_input(self, name: str, port: int) -> TensorOrigin:
        producer = self._ops[name].inputs[port].producer
        if self._ops[producer.op].type in PASSED_THROUGH:
            return self._origin_of_input(producer.op, producer.port)
        return self._origin(producer.op, TensorIO.OUTPUT, producer.port)

    def _golden_array(self, origin: TensorOrigin) -> np.ndarray:
        stem = origin.op.replace("/", "_").replace(".", "_")
        (path,) = self._golden.glob(f"{stem}.{origin.port}.*.npy")
        return np.load(path)


def lenet(shared_data: Path, run: str) -> tuple[Case, Path]:
    folder = shared_data / "tf_lenet_train"
    (graph,) = (folder / run / "graph").iterdir()
    (step,) = (path for path in (folder / run / "dump").glob("*/*/*/*/*"))
    return Case(read_ge_text(graph), step, folder / "golden"), folder / run / "msaccucmp_result.csv"


def autoencoder(shared_data: Path) -> tuple[Case, Path]:
    folder = shared_data / "dumps" / "autoencoder_hh"
    case = Case(graph_of_json(folder / "hh_om.json"), folder / "npu_dump", folder / "golden_npy")
    return case, folder / "reference_result.csv"


def compared_rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["CosineSimilarity"] != "NaN" or row["MaxAbsoluteError"] != "NaN":
                yield row


def assert_row_agrees(case: Case, row: dict[str, str]) -> None:
    device, golden = case.pair(row["TensorIndex"])
    measured = measure(device, golden).metrics
    assert row["OverFlow"] == {True: "YES", False: "NO", None: "NaN"}[overflow_flag(device)]
    for metric in Metric:
        text = row[metric.title().replace("_", "")]
        if text == "NaN":
            continue
        where = f"{row['TensorIndex']} {metric}"
        if metric is Metric.STANDARD_DEVIATION:
            numbers = [float(number) for number in re.findall(r"[-.\d]+", text)]
            assert measured.standard_deviation == pytest.approx(numbers, abs=1.001e-3), where
            continue
        value = float(text)
        assert abs(measured.value(metric) - value) <= 2e-6 + 2e-5 * abs(value), where


@pytest.mark.parametrize("run", ["npu_fault", "npu_clean"])
def test_a_training_step_agrees_in_every_row(shared_data, run):
    case, table = lenet(shared_data, run)
    compared = list(compared_rows(table))
    assert len(compared) == 126
    for row in compared:
        assert_row_agrees(case, row)


def test_an_inference_with_fused_ops_agrees_in_every_row(shared_data):
    case, table = autoencoder(shared_data)
    compared = [
        row
        for row in compared_rows(table)
        # There the reference compares different element orders, so it is wrong even
        # without a fault.
        if row["NPUDump"] != "trans_TransData_29"
    ]
    assert len(compared) == 25
    for row in compared:
        assert_row_agrees(case, row)


def test_default_limits_find_the_faulty_op_first(shared_data):
    case, table = lenet(shared_data, "npu_fault")
    judge = Thresholds().judge
    over = [
        row["NPUDump"]
        for row in compared_rows(table)
        if judge(measure(*case.pair(row["TensorIndex"])).metrics).level is Level.FAIL
    ]
    assert over[0] == "LeNet/conv2/Conv2DRelu"


def test_default_limits_pass_the_forward_part_of_a_clean_run(shared_data):
    case, table = lenet(shared_data, "npu_clean")
    judge = Thresholds().judge
    levels = {
        row["NPUDump"]: judge(measure(*case.pair(row["TensorIndex"])).metrics).level
        for row in compared_rows(table)
    }
    forward = [level for name, level in levels.items() if name.startswith("LeNet/")]
    assert forward
    assert Level.FAIL not in forward
