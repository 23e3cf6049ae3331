"""Every question reads a pair's values in one way: what one front door knows, all know."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.cli.main import main
from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.jobs.progress import NO_PROGRESS
from divergraph.metrics.pairs.detailed_metrics import detailed_metrics
from divergraph.metrics.pairs.tensor_pairs import measured_pair
from divergraph.submodel.run_parts import opened
from divergraph.values.dumped_values import DumpedValues
from divergraph.values.one_tensor import read_stored, read_tensor
from divergraph.values.orders import reordered
from divergraph.values.pairs import PairValues, read_pair
from divergraph.values.run_values import RunValues
from divergraph.values.tensor_pair import TensorPair
from divergraph.values.unread import Unread
from divergraph.values.zero_points import moved_by_128, with_zero_of
from graphstore.model import (
    DType,
    DumpFormat,
    DumpTensorRef,
    LineageRule,
    Reason,
    Reorder,
    TensorIO,
    TensorRef,
)
from importers.dumps.index import DumpIndex
from importers.layouts import from_layout

OUTPUT = TensorRef("conv", 0)


def dumped(folder: Path, side: str, value: np.ndarray, **more: object) -> DumpTensorRef:
    """*value* in a raw file."""
    path = folder / f"{side}.bin"
    np.ascontiguousarray(value).tofile(path)
    kind, size = DType(value.dtype.name), value.nbytes
    raw, out = DumpFormat.RAW, TensorIO.OUTPUT
    return DumpTensorRef(path, raw, "conv", out, 0, kind, value.shape, 0, size, **more)


def run_values(pair: TensorPair, shape: tuple[int, ...]) -> RunValues:
    """The values of a run of one pair, as root cause, blame and submodels read them."""
    dumps = [DumpIndex({("conv", TensorIO.OUTPUT, 0): ref}) for ref in (pair.golden, pair.device)]
    return RunValues({OUTPUT: pair}, {OUTPUT: shape}, *dumps, memory=1 << 20)


class TestOtherSigns:
    """uint8 about 128 stands for int8 about 0."""

    golden = np.random.default_rng(3).normal(0, 40, (2, 8, 5)).clip(-128, 127).astype(np.int8)

    @pytest.mark.parametrize("turned", [False, True], ids=["uint8 device", "int8 device"])
    @pytest.mark.parametrize("axes", [(), (0, 2, 1)], ids=["in order", "reordered"])
    def test_metrics_and_root_cause_see_the_same_numbers(self, tmp_path, turned, axes):
        golden = moved_by_128(self.golden) if turned else self.golden
        device = moved_by_128(golden).transpose(axes) if axes else moved_by_128(golden)
        reorder = Reorder(axes=axes) if axes else None
        sides = dumped(tmp_path, "device", device), dumped(tmp_path, "golden", golden)
        pair = TensorPair(*sides, reorder=reorder)
        found = measured_pair(pair)
        assert found.metrics.max_absolute_error == 0
        assert (found.device_dtype, found.golden_dtype) == (sides[0].dtype, sides[1].dtype)
        assert np.array_equal(run_values(pair, golden.shape).device(OUTPUT), golden)

    def test_diff_of_many_small_files_sees_them_too(self, tmp_path, capsys):
        for side, value in (("a", moved_by_128(self.golden)), ("b", self.golden)):
            (tmp_path / side).mkdir()
            for name in range(40):
                np.save(tmp_path / side / f"t{name}.npy", value)
        with pytest.raises(SystemExit, match="0"):
            main(["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--json"])
        pairs = json.loads(capsys.readouterr().out)["pairs"]
        assert {pair["metrics"]["max_absolute_error"] for pair in pairs} == {0.0}
        assert len(pairs) == 40

    def test_matching_and_submodels_know_them_as_well(self, tmp_path):
        for side, zero in (("golden", np.int8(0)), ("device", np.uint8(128))):
            names = ("q", "pooled", "d") if side == "golden" else ("hq", "hidden", "hd")
            onnx.save_model(quantised(names, zero), str(tmp_path / f"{side}.onnx"))
            capture(CaptureRequest(tmp_path / f"{side}.onnx", tmp_path / side, seed=1))
        at = tmp_path
        paths = (at / "golden.onnx", at / "golden", at / "device.onnx", at / "device")
        data = compare(CompareRequest(*paths))
        by_op = {item.op: item for item in data.comparisons}
        found = by_op["op_hidden"]
        assert found.rule is LineageRule.SAME_VALUES
        assert found.golden == TensorRef("op_pooled", 0)
        assert found.metrics.max_absolute_error == 0
        parts = opened(data, NO_PROGRESS)
        golden = parts.golden_value(found.golden)
        assert golden.dtype == np.int8
        assert np.array_equal(parts.device_value(found.golden), golden)

    def test_the_nearest_form_counts_of_large_tensors_as_well(self):
        golden = np.random.default_rng(4).integers(-128, 128, 3_000_000, np.int8)
        for device in (moved_by_128(golden), golden.view(np.uint8)):
            assert np.array_equal(with_zero_of(device, golden), golden)
        small = np.abs(golden // 2)
        assert np.array_equal(with_zero_of(small.astype(np.uint8), small), small)


def quantised(names: tuple[str, str, str], zero: np.generic) -> onnx.ModelProto:
    """x quantised, pooled as 8-bit integers, and back."""
    q, pooled, d = names
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], [q], f"op_{q}"),
        helper.make_node("MaxPool", [q], [pooled], f"op_{pooled}", kernel_shape=[2, 2]),
        helper.make_node("DequantizeLinear", [pooled, "scale", "zero"], [d], f"op_{d}"),
        helper.make_node("Tanh", [d], ["y"], "op_y"),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 8, 8])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = [
        numpy_helper.from_array(np.array(0.03, np.float32), "scale"),
        numpy_helper.from_array(np.array(zero), "zero"),
    ]
    graph = helper.make_graph(nodes, "net", [given], [made], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class TestBlockedGolden:
    """A golden side may be a device's dump: its blocks are undone, its padding is cut."""

    golden = np.random.default_rng(5).normal(0, 1, (2, 20, 3, 4)).astype(np.float32)

    @pytest.fixture
    def pair(self, tmp_path: Path) -> TensorPair:
        stored = from_layout(self.golden, "NCHW", "NC1HWC0")
        blocked = {"layout": "NC1HWC0", "original_shape": self.golden.shape}
        device = dumped(tmp_path, "device", self.golden)
        return TensorPair(device, dumped(tmp_path, "golden", stored, **blocked), None, "NCHW")

    def test_metrics_and_root_cause_see_it_as_its_graph_has_it(self, pair):
        assert measured_pair(pair).metrics.max_absolute_error == 0
        values = run_values(pair, self.golden.shape)
        assert np.array_equal(values.golden(OUTPUT), self.golden)
        assert np.array_equal(values.device(OUTPUT), self.golden)

    def test_matching_and_one_sided_readers_too(self, pair):
        dump = DumpedValues(DumpIndex({("conv", TensorIO.OUTPUT, 0): pair.golden}), 1 << 20)
        assert dump.shape(OUTPUT) == self.golden.shape
        assert dump.size(OUTPUT) == self.golden.size
        assert np.array_equal(dump.of(OUTPUT), self.golden)
        assert np.array_equal(read_tensor(pair.golden), self.golden)
        assert read_stored(pair.golden).shape == (2, 2, 3, 4, 16)


class TestReordered:
    """Values whose axes were swapped are looked at closely, too, and once."""

    def test_detailed_metrics_and_root_cause_see_golden_order(self, tmp_path):
        golden = np.random.default_rng(6).normal(1, 0.1, (2, 3, 4, 4)).astype(np.float32)
        wrong = golden.copy()
        wrong[:, 2] *= 2
        sides = dumped(tmp_path, "device", wrong.transpose(0, 2, 3, 1)), golden
        pair = TensorPair(
            sides[0], dumped(tmp_path, "golden", golden), None, "NCHW", Reorder(axes=(0, 3, 1, 2))
        )
        found = measured_pair(pair)
        [(_, figures)] = detailed_metrics([(0, pair, found)])
        assert "axis 1" in figures.where_bad
        assert figures.max_ulp > 1
        assert np.array_equal(run_values(pair, golden.shape).device(OUTPUT), wrong)

    def test_the_order_is_all_there_is_to_undo(self, tmp_path):
        """A layout of as many axes would permute what lies in golden's order already."""
        golden = np.random.default_rng(7).normal(0, 1, (2, 4, 4, 4)).astype(np.float32)
        device = dumped(tmp_path, "device", golden.transpose(0, 2, 3, 1), layout="NCHW")
        order = Reorder(axes=(0, 3, 1, 2))
        pair = TensorPair(device, dumped(tmp_path, "golden", golden), "NHWC", None, order)
        assert measured_pair(pair).metrics.max_absolute_error == 0
        assert np.array_equal(run_values(pair, golden.shape).device(OUTPUT), golden)
        assert reordered(golden, order, (5, 5)) is None


class TestUnread:
    """What cannot be had is a reason, not an exception."""

    def test_a_damaged_file_a_wrong_shape_and_an_unknown_layout_say_so(self, tmp_path):
        golden = dumped(tmp_path, "golden", np.zeros((2, 3), np.float32))
        other = dumped(tmp_path, "device", np.zeros((2, 5), np.float32))
        found = read_pair(TensorPair(other, golden))
        assert isinstance(found, Unread)
        assert found.reason is Reason.SHAPE_MISMATCH
        strange = dumped(tmp_path, "strange", np.zeros((2, 3), np.float32), layout="FRACTAL_X")
        found = read_tensor(strange, "NCHW")
        assert isinstance(found, Unread)
        assert found.reason is Reason.LAYOUT_UNSUPPORTED
        golden.path.write_bytes(b"")
        for damaged in (read_pair(TensorPair(other, golden)), read_stored(golden)):
            assert isinstance(damaged, Unread)
            assert damaged.reason is Reason.UNREADABLE_DUMP
            assert damaged.error.path == golden.path
        assert run_values(TensorPair(other, golden), (2, 3)).golden(OUTPUT) is None

    def test_the_padding_of_two_sides_stored_alike_is_values(self, tmp_path):
        stored = np.random.default_rng(8).normal(0, 1, (1, 2, 3, 3, 16)).astype(np.float32)
        sides = [dumped(tmp_path, each, stored, layout="NC1HWC0") for each in ("a", "b")]
        values = read_pair(TensorPair(*sides))
        assert isinstance(values, PairValues)
        assert values.device.shape == values.golden.shape == stored.shape
