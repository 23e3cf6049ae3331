"""Parts of ONNX models as models of their own: they load and give the same bits."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.execute.installed import open_executor
from divergraph.submodel.export.onnx_export import export_onnx
from divergraph.submodel.select import Selector
from divergraph.submodel.selection import SelectionRequest, TensorFacts
from graphstore.errors import ImportFormatError, InputError
from importers.registry import read_graph

ort.set_default_logger_severity(4)
RNG = np.random.default_rng(7)


def value(name, *shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name, *shape):
    return numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32), name)


def saved(path, nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "net", inputs, outputs, list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, str(path))
    return path


class Cutter:
    """A model with the values of all its tensors, to cut from and to check against."""

    def __init__(self, path, feeds):
        self.path, self.graph = path, read_graph(path)
        executor = open_executor(path, self.graph)
        self.values = dict(executor.run(feeds)) | feeds
        executor.close()
        names = {
            (op.id, port): tensor.name
            for op in self.graph.ops
            for port, tensor in enumerate(op.outputs)
        }

        def facts(key):
            name = key if isinstance(key, str) else names[key.op, key.port]
            found = self.values.get(name)
            return TensorFacts(None, None if found is None else found.shape, found is not None)

        self.selector = Selector(self.graph, facts)

    def cut(self, starts, ends, target, **wish):
        part = self.selector.between(starts, ends, SelectionRequest(**wish))
        assert not part.refused, part.refused
        frozen = {tensor.name: self.values[tensor.name] for tensor in part.inputs if tensor.frozen}
        return part, export_onnx(self.graph, self.path, part, target, frozen)

    def check(self, target):
        """The model at *target* gives the values of the whole; its outputs' names."""
        onnx.checker.check_model(str(target), full_check=True)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(str(target), options)
        found = session.run(
            None, {each.name: self.values[each.name] for each in session.get_inputs()}
        )
        names = [each.name for each in session.get_outputs()]
        for name, array in zip(names, found, strict=True):
            np.testing.assert_array_equal(array, self.values[name])
        return names


@pytest.fixture
def net(tmp_path):
    """x -> conv -> relu -> add(side) -> matmul, with a shared weight and an unused one."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "act"),
        helper.make_node("Add", ["b", "side"], ["c"], "join"),
        helper.make_node("MatMul", ["c", "w"], ["d"], "second"),
        helper.make_node("MatMul", ["d", "other"], ["y"], "last"),
    ]
    path = saved(
        tmp_path / "net.onnx",
        nodes,
        [value("x", 2, 4), value("side", 2, 4)],
        [value("y", 2, 4)],
        [weight("w", 4, 4), weight("other", 4, 4), weight("unused", 64, 64)],
    )
    feeds = {name: RNG.standard_normal((2, 4)).astype(np.float32) for name in ("x", "side")}
    return Cutter(path, feeds)


def test_a_part_gives_the_same_bits(net, tmp_path):
    part, written = net.cut(["act"], ["second"], tmp_path / "part.onnx")
    assert part.chosen == ("act", "join", "second")
    assert net.check(written.files[0]) == ["d"]
    model = onnx.load(str(written.files[0]))
    assert [tensor.name for tensor in model.graph.initializer] == ["w"]
    assert [each.name for each in model.graph.input] == ["a", "side"]
    assert model.opset_import[0].version == 17
    assert written.files[1:] == ()


def test_every_output_used_outside(net, tmp_path):
    _, written = net.cut(["first"], ["act"], tmp_path / "part.onnx", all_outputs=True)
    assert net.check(written.files[0]) == ["b"]


def test_values_in_another_file_are_copied_alone(net, tmp_path):
    model = onnx.load(str(net.path))
    (tmp_path / "outside").mkdir()
    path = tmp_path / "outside" / "net.onnx"
    onnx.save_model(
        model, str(path), save_as_external_data=True, location="w.bin", size_threshold=0
    )
    outside = Cutter(path, {name: net.values[name] for name in ("x", "side")})
    target = tmp_path / "part" / "dump.onnx"
    target.parent.mkdir()
    _, written = outside.cut(["second"], ["second"], target)
    assert written.files[1] == target.with_name("dump.onnx.data")
    assert written.files[1].stat().st_size == 64
    assert outside.check(target) == ["d"]


def test_what_only_tells_shapes_becomes_a_constant(tmp_path):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], "shape"),
        helper.make_node("Relu", ["x"], ["a"], "act"),
        helper.make_node("Transpose", ["a"], ["t"], "turn"),
        helper.make_node("Reshape", ["t", "s"], ["y"], "back"),
    ]
    path = saved(tmp_path / "n.onnx", nodes, [value("x", 2, 3)], [value("y", 2, 3)])
    net = Cutter(path, {"x": RNG.standard_normal((2, 3)).astype(np.float32)})
    _, written = net.cut(["turn"], ["back"], tmp_path / "part.onnx")
    assert net.check(written.files[0]) == ["y"]
    assert [each.name for each in onnx.load(str(written.files[0])).graph.input] == ["a"]


def test_a_body_takes_what_it_captures(tmp_path):
    then = helper.make_graph(
        [helper.make_node("Mul", ["a", "w"], ["t"], "inner")], "then", [], [value("t", 2, 3)]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["a"], ["e"], "inner2")], "else", [], [value("e", 2, 3)]
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "act"),
        helper.make_node("If", ["flag"], ["i"], "if", then_branch=then, else_branch=other),
        helper.make_node("Exp", ["i"], ["y"], "after"),
    ]
    path = saved(
        tmp_path / "n.onnx",
        nodes,
        [value("x", 2, 3), value("flag", kind=TensorProto.BOOL)],
        [value("y", 2, 3)],
        [weight("w", 2, 3)],
    )
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    net = Cutter(path, {"x": x, "flag": np.array(True)})
    part, written = net.cut(["if"], ["after"], tmp_path / "part.onnx")
    assert {tensor.name for tensor in part.inputs} == {"a", "flag"}
    assert net.check(written.files[0]) == ["y"]
    body = next(op.id for op in net.graph.ops if op.name == "inner")
    assert net.selector.between([body], [body]).refused[0].starts == ("if",)
    inside = net.selector.hull([body], SelectionRequest(data=False))
    with pytest.raises(InputError, match="lies in a body"):
        export_onnx(net.graph, path, inside, tmp_path / "no.onnx")


def test_quantised_nodes_and_own_functions(tmp_path):
    twice = helper.make_function(
        "own", "Twice", ["p"], ["q"], [helper.make_node("Add", ["p", "p"], ["q"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], "quant"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"], "dequant"),
        helper.make_node("Twice", ["d"], ["y"], "twice", domain="own"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", 4)],
        [value("y", 4)],
        [
            numpy_helper.from_array(np.float32(0.1), "scale"),
            numpy_helper.from_array(np.uint8(7), "zero"),
        ],
    )
    model = helper.make_model(
        graph,
        functions=[twice],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
        ir_version=10,
    )
    path = tmp_path / "n.onnx"
    onnx.save(model, str(path))
    net = Cutter(path, {"x": RNG.standard_normal(4).astype(np.float32)})
    _, written = net.cut(["quant"], ["dequant"], tmp_path / "q.onnx")
    assert net.check(written.files[0]) == ["d"]
    assert not onnx.load(str(written.files[0])).functions
    _, called = net.cut(["dequant"], ["twice"], tmp_path / "t.onnx")
    assert net.check(called.files[0]) == ["y"]


def test_nodes_in_any_order_come_out_sorted(tmp_path):
    nodes = [
        helper.make_node("Exp", ["b"], ["y"], "third"),
        helper.make_node("Relu", ["a"], ["b"], "second"),
        helper.make_node("Neg", ["x"], ["a"], "first"),
    ]
    path = saved(tmp_path / "n.onnx", nodes, [value("x", 3)], [value("y", 3)])
    net = Cutter(path, {"x": RNG.standard_normal(3).astype(np.float32)})
    _, written = net.cut(["first"], ["third"], tmp_path / "part.onnx")
    assert net.check(written.files[0]) == ["y"]


def test_another_file_than_the_graphs_is_refused(net, tmp_path):
    other = saved(
        tmp_path / "other.onnx",
        [helper.make_node("Relu", ["x"], ["y"], "r")],
        [value("x", 3)],
        [value("y", 3)],
    )
    part = net.selector.between(["act"], ["act"])
    with pytest.raises(InputError, match="not the one the run was made with"):
        export_onnx(net.graph, other, part, tmp_path / "p.onnx")


def test_a_damaged_file_is_refused(net, tmp_path):
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(net.path.read_bytes()[:200])
    part = net.selector.between(["act"], ["act"])
    with pytest.raises(ImportFormatError, match="damaged ONNX model"):
        export_onnx(net.graph, cut, part, tmp_path / "p.onnx")
