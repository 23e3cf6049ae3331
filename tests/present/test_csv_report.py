"""The CSV report: columns, cells and order of the reference comparator's result table."""

from __future__ import annotations

import csv
import os

import numpy as np
import pytest

from divergraph.graphs.lineage.fusion_groups import fusion_groups
from divergraph.metrics.measure import measure
from divergraph.present.csv_report import report_rows, write_csv
from divergraph.text.words import REASON_WORDS
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import (
    Comparison,
    Counts,
    DType,
    Framework,
    GraphKind,
    LineageLink,
    LineageRule,
    Method,
    ModelGraph,
    Op,
    Reason,
    Run,
    Tensor,
    TensorIO,
    Verdict,
)
from importers.ge_proto.importer import read_ge_text

HEADER = (
    "Index,OpType,NPUDump,DataType,Address,GroundTruth,DataType,TensorIndex,Shape,OverFlow,"
    "CosineSimilarity,MaxAbsoluteError,AccumulatedRelativeError,RelativeEuclideanDistance,"
    "KullbackLeiblerDivergence,StandardDeviation,MeanAbsoluteError,RootMeanSquareError,"
    "MaxRelativeError,MeanRelativeError,CompareFailReason"
)


def op(name, originals=None, sequence=0, **more):
    return Op(id=name, name=name, type="Relu", original_names=originals, sequence=sequence, **more)


def compared(name, device, golden, **more):
    device, golden = np.asarray(device), np.asarray(golden)
    facts = {
        "shape": golden.shape,
        "device_dtype": DType(str(device.dtype)),
        "golden_dtype": DType(str(golden.dtype)),
        "device_path": f"Relu.{name}.1.2.3",
        "golden_path": f"{name}.0.1.npy",
        "address": 0,
    }
    return Comparison(
        **({"op": name, "io": TensorIO.OUTPUT, "port": 0} | facts | more),
        metrics=measure(device, golden).metrics,
    )


def not_compared(name, reason=Reason.NO_DEVICE_DUMP, **more):
    return Comparison(**({"op": name, "io": TensorIO.OUTPUT, "port": 0} | more), reason=reason)


def run_of(ops, comparisons, links=()):
    graph = ModelGraph("net", GraphKind.DEVICE, Framework.ASCEND, "ge_proto", tuple(ops))
    counts = Counts(len(graph.ops), len(comparisons), 0, 0, 0)
    run = Run("run", "g", "d", "", Verdict.CLEAN, Method.THRESHOLDS, counts, {})
    return RunData(run, graph, graph, tuple(links), tuple(comparisons), {}, ())


def rows_of(ops, comparisons, links=()):
    return list(report_rows(run_of(ops, comparisons, links)))[1:]


def cells(row, header=HEADER):
    return dict(zip(header.split(","), row, strict=True))


def test_a_compared_tensor_fills_every_cell():
    device = np.array([[1.5, 2.0], [0.0, -4.0]], np.float16)
    golden = np.array([[1.5, 2.5], [0.0, -4.0]], np.float32)
    (row,) = rows_of(
        [op("fused", ("conv", "bias"))], [compared("fused", device, golden, overflow=False)]
    )
    assert row == [
        "0",
        "Relu",
        "fused",
        "float16",
        "0",
        "conv,bias",
        "float32",
        "fused:output:0",
        "[2,2]",
        "NO",
        "0.995806",
        "0.500000",
        "0.200000",
        "0.101015",
        "0.000764",
        "(-0.125;2.355),(0.000;2.475)",
        "0.125000",
        "0.250000",
        "0.200000",
        "0.050000",
        "",
    ]


def test_an_op_without_any_dump_has_one_row_with_the_reason():
    (row,) = rows_of(
        [op("const")],
        [not_compared("const", Reason.NO_TASK), not_compared("const", Reason.NO_TASK, port=1)],
    )
    assert row[:3] == ["0", "Relu", "const"]
    assert row[5] == "const"
    assert set(row[3:5] + row[6:20]) == {"NaN"}
    assert row[20] == "[const] runs no task on the device"


def test_a_dumped_tensor_that_is_not_compared_keeps_its_place():
    inserted = op("trans_Cast_1", (), outputs=(Tensor("trans_Cast_1:0", shape=(5, 5, 1, None)),))
    (row,) = rows_of(
        [inserted],
        [
            not_compared(
                "trans_Cast_1",
                Reason.INSERTED,
                device_path="Cast.x",
                device_dtype=DType.FLOAT16,
                address=7,
                overflow=True,
                detail="nothing upstream is original",
            )
        ],
    )
    named = cells(row, HEADER.replace("DataType,TensorIndex", "GoldenType,TensorIndex"))
    assert named["NPUDump"] == "trans_Cast_1"
    assert named["Address"] == "7"
    assert named["GroundTruth"] == "*"
    assert named["TensorIndex"] == "trans_Cast_1:output:0"
    assert named["Shape"] == "[5,5,1,?]"
    assert named["OverFlow"] == "YES"
    assert named["CosineSimilarity"] == "NaN"
    assert named["CompareFailReason"].endswith(": nothing upstream is original")


def test_inputs_come_before_outputs():
    rows = rows_of(
        [op("relu")],
        [
            compared("relu", [1.0, 2.0], [1.0, 2.0]),
            compared("relu", [1.0, 2.0], [1.0, 2.0], io=TensorIO.INPUT, port=1),
            compared("relu", [1.0, 2.0], [1.0, 2.0], io=TensorIO.INPUT, port=0),
        ],
    )
    assert [cells(row)["TensorIndex"] for row in rows] == [
        "relu:input:0",
        "relu:input:1",
        "relu:output:0",
    ]


def test_ops_of_one_original_share_the_index_and_follow_each_other():
    ops = [
        op("split_b", ("matmul",), sequence=5),
        op("other", sequence=3),
        op("split_a", ("matmul",), sequence=2),
        op("pair_a", ("x", "y"), sequence=6),
        op("pair_b", ("x", "y"), sequence=7),
        op("cast_1", ()),
        op("cast_2", ("",)),
        op("l1_a", ("p",), attrs={"_L1_fusion_sub_graph_no": "3"}),
        op("l1_b", ("q",), attrs={"_L1_fusion_sub_graph_no": "3"}),
    ]
    assert [[member.name for member in group] for group in fusion_groups(ops)] == [
        ["split_a", "split_b"],
        ["other"],
        ["pair_a", "pair_b"],
        ["cast_1"],
        ["cast_2"],
        ["l1_a", "l1_b"],
    ]
    rows = rows_of(ops, [not_compared(member.name) for member in ops])
    assert [row[0] for row in rows] == ["0", "0", "1", "2", "2", "3", "4", "5", "5"]
    assert [row[5] for row in rows][5:7] == ["*", "*"]


def test_linked_originals_name_the_ground_truth_where_the_graph_names_none():
    link = LineageLink("conv_relu", "relu", LineageRule.SAME_TENSOR)
    (row,) = rows_of([op("conv_relu")], [not_compared("conv_relu")], [link])
    assert row[5] == "relu"


def test_numbers_that_are_no_numbers_and_scalars():
    flags, scalar, broken = rows_of(
        [op("flags"), op("scalar"), op("broken")],
        [
            compared("flags", [True, False], [True, True]),
            compared("scalar", np.float32(3.0), np.float32(3.0), shape=()),
            compared("broken", [np.inf, 1.0], [0.0005, 1.0]),
        ],
    )
    assert cells(flags)["MaxAbsoluteError"] == cells(flags)["StandardDeviation"] == "NaN"
    assert cells(flags)["CompareFailReason"] == "not defined for boolean tensors"
    assert cells(scalar)["Shape"] == "[1]"
    assert cells(scalar)["CosineSimilarity"] == "1.000000"
    assert "single value" in cells(scalar)["CompareFailReason"]
    assert cells(broken)["MaxAbsoluteError"] == "inf"
    assert cells(broken)["CosineSimilarity"] == "NaN"
    assert cells(broken)["StandardDeviation"] == "(inf;NaN),(0.500;0.500)"


def test_addresses_are_only_shown_for_sides_that_have_them():
    def header(**paths):
        comparison = compared("relu", [1.0, 2.0], [1.0, 2.0], **paths)
        return next(report_rows(run_of([op("relu")], [comparison]))), comparison

    assert header()[0] == HEADER.split(",")
    from_npy, comparison = header(device_path="relu.0.1.npy")
    assert from_npy == HEADER.replace("Address,", "").split(",")
    assert len(rows_of([op("relu")], [comparison])[0]) == len(from_npy)
    two_devices, comparison = header(golden_path="Relu.relu.1.2.3")
    assert two_devices.count("Address") == 2
    assert len(rows_of([op("relu")], [comparison])[0]) == len(two_devices)


def test_the_file_is_what_csv_readers_expect(tmp_path):
    path = tmp_path / "result.csv"
    path.write_text("old")
    data = run_of([op('odd,"name"')], [compared('odd,"name"', [1.0, 2.0], [1.0, 2.0])])
    write_csv(path, data)
    assert path.read_bytes().startswith(HEADER.encode() + b"\r\n")
    with path.open(newline="", encoding="utf-8") as file:
        (row,) = list(csv.reader(file))[1:]
    assert row[2] == 'odd,"name"'
    assert list(tmp_path.iterdir()) == [path]


def test_a_wrong_place_is_said_and_nothing_is_left(tmp_path):
    data = run_of([], [])
    with pytest.raises(InputError, match="no such folder"):
        write_csv(tmp_path / "no" / "result.csv", data)
    with pytest.raises(InputError, match="cannot be written"):
        write_csv(tmp_path, data)
    with pytest.raises(InputError, match="cannot be written"):
        write_csv(tmp_path / ("x" * 300), data)
    assert list(tmp_path.iterdir()) == []


def test_every_reason_has_words():
    for reason in Reason:
        (row,) = rows_of([op("x")], [not_compared("x", reason)])
        assert row[-1].startswith("[x] ")
        assert row[-1] == f"[x] {REASON_WORDS[reason]}"


@pytest.mark.shared
@pytest.mark.parametrize("run", ["npu_fault", "npu_clean"])
def test_groups_are_numbered_and_named_as_in_the_reference_table(shared_data, run):
    folder = shared_data / "tf_lenet_train" / run
    (path,) = (folder / "graph").iterdir()
    ops = read_ge_text(path).ops
    ours = dict.fromkeys((row[0], row[1], row[2], row[5]) for row in rows_of(ops, _one_each(ops)))
    with (folder / "msaccucmp_result.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.reader(file))
    assert table[0] == HEADER.split(",")
    assert list(ours) == list(dict.fromkeys((r[0], r[1], r[2], r[5]) for r in table[1:]))


def _one_each(ops):
    return [not_compared(member.id) for member in ops]


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_csv(pipe, run_of([], []))
    assert os.read(reader, 5) == b"Index"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_csv(tmp_path / "link.csv", run_of([], []))
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("Index")
