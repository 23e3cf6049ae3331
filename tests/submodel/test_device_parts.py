"""Parts of the device's graph: what goes in, what stands for golden ops, compared again."""

from __future__ import annotations

import json
import random

import pytest

from divergraph.cli.main import run
from divergraph.submodel.device_parts import is_in_bodies, select_device, standing_for
from divergraph.submodel.export.contract import PartFormat, PartSource, writer_of
from divergraph.submodel.export.ge_export import with_bodies, write_ge_part
from divergraph.submodel.run_graphs import LinkedGraphs
from divergraph.submodel.select import Selector
from divergraph.submodel.selection import SelectionRequest
from graphstore.errors import ImportFormatError, InputError
from graphstore.model import DType, Framework
from importers.registry import read_graph

CONV2 = "LeNet/conv2/Conv2DRelu"


@pytest.fixture(scope="module")
def store(shared_data, tmp_path_factory):
    folder = shared_data / "tf_lenet_train"
    store = tmp_path_factory.mktemp("parts") / "store"
    side = folder / "npu_fault"
    assert compared(store, "r", folder / "model.ckpt.meta", folder / "golden", side) == 1
    return store


def compared(store, name, model, golden, side):
    graph = side / "graph" if (side / "graph").is_dir() else side / "device" / "dump.txt"
    dumps = side / "dump" if (side / "dump").is_dir() else side / "dump_data" / "device"
    return run(
        [
            *("compare", "--golden", str(model), "--golden-dump", str(golden)),
            *("--device", str(graph), "--device-dump", str(dumps), "--method", "thresholds"),
            *("--run", name, "--store", str(store)),
        ]
    )


@pytest.fixture
def submodel(store, capsys):
    def call(*words):
        capsys.readouterr()
        code = run(["submodel", "r", *map(str, words), "--store", str(store), "--json"])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else said.err

    return call


@pytest.mark.shared
@pytest.mark.parametrize("name", [CONV2, "LeNet/conv2/BiasAdd"])
def test_a_part_named_by_device_or_golden_op_has_its_casts_inside(submodel, tmp_path, name):
    words = ("--start", name, "--end", name, "--format", "ge", "-o", tmp_path)
    code, found = submodel(*words)
    assert code == 0
    assert found["ops"] == ["trans_Cast_2", "trans_TransData_2", CONV2]
    assert [tensor["name"] for tensor in found["inputs"]] == ["LeNet/pool1/MaxPool:0"]
    (bundle,) = tmp_path.iterdir()
    written = read_graph(bundle / "dump.txt")
    ops = written.op_index()
    assert [tensor.name for tensor in written.inputs] == ["LeNet/pool1/MaxPool:0"]
    made = ops["LeNet/pool1/MaxPool"].outputs[0]
    assert (made.dtype, made.shape) == (DType.FLOAT16, (2, 1, 14, 14, 16))
    assert made.layout == "NC1HWC0"
    assert found["inputs"][0]["shape"] == [2, 1, 14, 14, 16]
    assert ops[CONV2].original_names == (
        *("LeNet/conv2/Conv2D", "LeNet/conv2/BiasAdd", "LeNet/conv2/Relu"),
    )
    assert any(op.type == "NetOutput" for op in written.ops)
    dumps = {path.name.partition(".")[0] for path in (bundle / "dump_data" / "device").iterdir()}
    assert {"Conv2D", "Cast", "TransData", "MaxPool"} <= dumps
    assert (bundle / "inputs" / "000_LeNet_pool1_MaxPool_0.device.fp16.bin").is_file()


@pytest.mark.shared
def test_the_bundle_of_a_golden_part_compares_again_with_the_same_origin(submodel, store, tmp_path):
    code, _ = submodel("--start", CONV2, "--end", CONV2, "-o", tmp_path)
    assert code == 0
    (bundle,) = tmp_path.iterdir()
    golden = bundle / "dump_data" / "golden"
    assert compared(store, "again", bundle / "dump.pb", golden, bundle) == 1
    log = (bundle / "export.log").read_text()
    assert "Dump Layer:[LeNet/conv2/Conv2D, LeNet/conv2/BiasAdd, LeNet/conv2/Relu]\n" in log
    assert "Output File:Conv2D.LeNet_conv2_Conv2DRelu." in log


@pytest.mark.shared
def test_a_cut_through_a_fused_op_is_refused_and_the_whole_offered(submodel, tmp_path):
    code, found = submodel(
        *("--start", "LeNet/conv2/BiasAdd", "--end", "LeNet/conv2/Relu", "-o", tmp_path)
    )
    (refusal,) = found["refused"]
    assert (code, refusal["rule"]) == (2, "fused_cut")
    assert "LeNet/conv2/Conv2D would stay outside" in refusal["sentence"]
    assert (refusal["starts"], refusal["ends"]) == (["LeNet/conv2/Conv2D"], ["LeNet/conv2/Relu"])
    assert not list(tmp_path.iterdir())


@pytest.mark.shared
def test_ops_only_one_side_has_are_said(submodel):
    code, said = submodel("--start", "trans_Cast_2", "--end", CONV2)
    assert code == 2
    assert "the device op 'trans_Cast_2' stands for no original op" in said
    code, said = submodel("--start", "nothing", "--end", CONV2, "--format", "ge")
    assert code == 2
    assert "the graph has no op 'nothing'" in said


class Graphs(LinkedGraphs):
    """A device graph alone, each op standing for the golden op of its name."""

    def __init__(self, golden, device):
        self.golden, self.device = golden, device
        self.stand = {op.id: (op.id,) for op in golden.ops if op.id in self.device_ids}

    @property
    def stands_for(self):
        return self.stand


@pytest.fixture
def graphs(graph_of, tmp_path):
    """A device graph read from GE's text: an op with a cast and a change of layout around it."""
    desc = 'output_desc {{ dtype: {} shape {{ dim: 2 dim: 3 }} layout: "{}" }}'
    ops = [
        ("a", "Data", "", "DT_FLOAT", "ND"),
        ("cast", "Cast", "a:0", "DT_FLOAT16", "ND"),
        ("trans", "TransData", "cast:0", "DT_FLOAT16", "FRACTAL_NZ"),
        ("b", "Relu", "trans:0", "DT_FLOAT16", "FRACTAL_NZ"),
        ("back", "TransData", "b:0", "DT_FLOAT16", "ND"),
        ("c", "Tanh", "back:0", "DT_FLOAT16", "ND"),
    ]
    text = "".join(
        f'  op {{ name: "{name}" type: "{kind}" input: "{taken}" id: {place} '
        f"{desc.format(dtype, layout)} }}\n"
        for place, (name, kind, taken, dtype, layout) in enumerate(ops)
    )
    path = tmp_path / "ge_proto_00000001_Build.txt"
    path.write_text(f'graph {{\n  name: "g"\n{text}}}\n')
    return Graphs(graph_of("b = Relu a\nc = Tanh b"), read_graph(path))


def test_inserted_ops_at_the_boundary_go_inside(graphs):
    part = select_device(graphs, ["b"], ["b"], SelectionRequest(data=False))
    assert part.chosen == ("cast", "trans", "b", "back")
    assert [tensor.name for tensor in part.inputs] == ["a:0"]
    assert [tensor.name for tensor in part.outputs] == ["back:0"]


def test_what_stands_for_a_golden_part(graphs):
    golden = graphs.selector.between(["b"], ["c"], SelectionRequest(data=False))
    part = standing_for(graphs, golden)
    assert part is not None
    assert part.chosen == ("cast", "trans", "b", "back", "c")


def test_a_part_is_written_as_ge_writes_graphs(graphs, tmp_path):
    part = select_device(graphs, ["b"], ["c"], SelectionRequest(data=False))
    writer = writer_of(PartFormat.GE, graphs.device)
    written = writer(PartSource(graphs.device, tmp_path, None, {}), part, tmp_path)
    again = read_graph(written.files[0])
    assert [op.type for op in again.ops] == [
        *("Data", "Cast", "TransData", "Relu", "TransData", "Tanh", "NetOutput")
    ]
    assert [op.outputs[0].layout for op in again.ops[:4]] == [
        "ND",
        "ND",
        "FRACTAL_NZ",
        "FRACTAL_NZ",
    ]
    assert [str(ref) for ref in again.outputs] == ["c:0"]
    assert again.op_index()["Node_Output"].inputs[0].producer.op == "c"


def test_values_of_constants_come_along_from_the_file(tmp_path):
    path = tmp_path / "ge_proto_00000001_Build.txt"
    desc = "output_desc { dtype: DT_FLOAT shape { dim: 1 } }"
    path.write_text(
        'graph { name: "g"\n'
        f'op {{ name: "x" type: "Data" {desc} }}\n'
        'op { name: "w" type: "Const" attr { key: "value" value { t { desc { dtype: DT_FLOAT } '
        f'data: "\\000\\000\\200?" }} }} }} {desc} }}\n'
        f'op {{ name: "a" type: "Add" input: "x:0" input: "w:0" dst_name: "b" {desc} }}\n'
        f'op {{ name: "b" type: "Relu" input: "a:0" {desc} }} }}\n'
    )
    graph = read_graph(path)
    part = Selector(graph).between(["a"], ["a"], SelectionRequest(data=False))
    writer = writer_of(PartFormat.GE, graph)
    written = writer(PartSource(graph, path, None, {}), part, tmp_path)
    text = written.files[0].read_text()
    assert 'data: "\\000\\000\\200?"' in text
    assert "dst_name" not in text


def test_a_part_of_another_framework_cannot_be_written_so(graphs):
    with pytest.raises(InputError, match="cannot be written as ge"):
        writer_of(PartFormat.GE, graphs.golden)


BODIES = """
graph { name: "g"
  op { name: "x" type: "Data" id: 0 output_desc { dtype: DT_FLOAT shape { dim: 2 } } }
  op { name: "p0" type: "PartitionedCall" id: 1 input: "x:0" subgraph_name: "first"
    output_desc { dtype: DT_FLOAT shape { dim: 2 } } }
  op { name: "p1" type: "PartitionedCall" id: 2 input: "p0:0" subgraph_name: "second"
    output_desc { dtype: DT_FLOAT shape { dim: 2 } } }
  op { name: "out" type: "NetOutput" id: 3 input: "p1:0" }
}
"""


def body(name, op, kind):
    desc = "output_desc { dtype: DT_FLOAT shape { dim: 2 } }"
    index = 'attr { key: "_parent_node_index" value { i: 0 } }'
    return (
        f'graph {{ name: "{name}"\n'
        f'  op {{ name: "{name}/in" type: "Data" id: 0 {index} {desc} }}\n'
        f'  op {{ name: "{op}" type: "{kind}" id: 1 input: "{name}/in:0" {desc} }}\n'
        f'  op {{ name: "{name}/out" type: "NetOutput" id: 2 input: "{op}:0" '
        f"input_desc {{ {index} }} }}\n}}\n"
    )


def test_ops_in_several_bodies_stand_for_a_part_with_the_bodies_whole(graph_of, tmp_path):
    path = tmp_path / "ge_proto_00000001_Build.txt"
    path.write_text(BODIES + body("first", "b", "Relu") + body("second", "c", "Tanh"))
    device = read_graph(path)
    inner = {op.name: op.id for op in device.ops}
    graphs = Graphs(graph_of("b = Relu a\nc = Tanh b"), device)
    graphs.stand = {"b": (inner["b"],), "c": (inner["c"],)}
    golden = graphs.selector.between(["b"], ["c"], SelectionRequest(data=False))
    assert is_in_bodies(graphs, golden)
    part = standing_for(graphs, golden)
    assert part.chosen == ("p0", "p1")
    write_ge_part(PartSource(device, path, None, {}), part, tmp_path)
    again = read_graph(tmp_path / "dump.txt")
    assert {op.name for op in again.ops} >= {"p0", "p1", "b", "c", "first/in", "second/out"}
    assert not again.warnings


def edges_of(graph):
    return {
        (str(ref.producer), op.id, place)
        for op in graph.ops
        for place, ref in enumerate(op.inputs)
        if ref is not None and ref.producer is not None
    }


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("seed", range(3))
def test_written_parts_of_real_graphs_are_read_again_op_by_op(shared_data, tmp_path, seed):
    """What GE's own tools would read; there is no device here to run it."""
    found = sorted((shared_data / "ge_proto").rglob("*.txt"))
    assert found
    chance = random.Random(seed)
    for path in chance.sample(found, min(4, len(found))):
        try:
            graph = read_graph(path)
        except ImportFormatError:
            continue  # a sample of another kind
        if graph.framework is not Framework.ASCEND:
            continue
        selector = Selector(graph)
        root = [op for op in selector.arrays.ids if not selector.ops[op].subgraph]
        first = chance.randrange(len(root))
        last = root[first : first + 40]
        part = selector.hull(
            [root[first], chance.choice(last)], SelectionRequest(data=False, whole=True)
        )
        if part.refused:
            continue
        target = tmp_path / path.stem
        target.mkdir()
        write_ge_part(PartSource(graph, path, None, {}), part, target)
        again = read_graph(target / "dump.txt")
        ops = again.op_index()
        kept = with_bodies(graph, part.ops)
        for op in kept.values():
            assert ops[op.id].type == op.type
            assert ops[op.id].original_names == op.original_names
            assert [(t.dtype, t.shape, t.layout) for t in ops[op.id].outputs] == [
                (t.dtype, t.shape, t.layout) for t in op.outputs
            ]
        inner = {
            (source, op, place)
            for source, op, place in edges_of(graph)
            if op in kept and source.rpartition(":")[0] in kept
        }
        assert inner <= edges_of(again)
        added = [op for op in again.ops if op.id not in kept]
        assert {op.type for op in added} <= {"Data", "NetOutput"}
