"""MindSpore's graphs in each of their forms, and its dumps of kernels tied to them.

The files in tests/data/mindspore were written by MindSpore; ``make.py`` beside them made them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphstore.errors import ImportFormatError
from graphstore.model import DType, Framework, TensorIO, TensorRef
from importers.dumps.detect import scan_dumps
from importers.registry import detect, read_graph

DATA = Path(__file__).parents[1] / "data" / "mindspore"
PB = DATA / "ms_output_trace_code_graph_2.pb"
BIAS, MATMUL = "Default/fc-Dense/BiasAdd-op0", "Default/fc-Dense/MatMul-op0"


@pytest.mark.parametrize("name", [PB.name, "ms_output_trace_code_graph_2.ir", "net.mindir"])
def test_each_form_is_found_by_its_content(name, tmp_path):
    shutil.copy(DATA / name, tmp_path / "renamed")
    importer, found = detect(tmp_path / "renamed")[0]
    assert (importer.name, found.confidence) == ("mindspore", 2)


@pytest.mark.parametrize("ending", [".pb", ".ir"])
def test_ops_are_called_as_dumps_call_them(ending):
    graph = read_graph(PB.with_suffix(ending))
    bias = graph.op_index()[BIAS]
    assert graph.framework is Framework.MINDSPORE
    assert bias.takes == (TensorRef(MATMUL, 0), TensorRef("Default/fc-Dense/Load-op0", 0))
    assert (bias.outputs[0].dtype, bias.outputs[0].shape) == (DType.FLOAT32, (2, 4))
    assert [given.name for given in graph.inputs] == ["x"]
    assert sorted(constant.tensor.name for constant in graph.constants) == ["fc.bias", "fc.weight"]
    assert graph.outputs == (TensorRef("Default/Depend-op0", 0),)
    assert not graph.warnings


@pytest.mark.parametrize("ending", [".pb", ".ir"])
def test_of_a_tuple_the_member_that_is_taken_is_known(ending):
    graph = read_graph((DATA / "ms_output_trace_code_graph_1.pb").with_suffix(ending))
    ops = graph.op_index()
    assert len(ops["Default/TopK-op1"].outputs) == 2
    assert ops["Default/TupleGetItem-op0"].takes == (TensorRef("Default/TopK-op1", 0),)


def test_functions_of_an_exported_model_are_bodies():
    graph = read_graph(DATA / "net.mindir")
    assert graph.format == "mindir"
    owners = {body.owner for body in graph.subgraphs}
    assert owners == {"Default/Partial-op0", "Default/Partial-op1"}
    inside = [op for op in graph.ops if op.subgraph and op.type == "MatMul"]
    assert [op.attrs["input 3"] for op in inside] == [True, True]
    assert not graph.warnings


def test_dumps_of_kernels_belong_to_ops():
    index = scan_dumps(DATA / "dump", read_graph(PB))
    assert {(BIAS, TensorIO.OUTPUT, 0), (MATMUL, TensorIO.OUTPUT, 0)} <= index.tensors.keys()
    assert not index.unmatched
    assert not index.problems


def test_a_table_of_statistics_belongs_to_ops(tmp_path):
    columns = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape"
    row = f"MatMul,{MATMUL},0,0,1795727148374620,output,0,32,float32,(2 4)"
    (tmp_path / "statistic.csv").write_text(
        f"{columns},Max Value,Min Value\n{row.replace('(2 4)', chr(34) + '(2,4)' + chr(34))},3,-1\n"
    )
    index = scan_dumps(tmp_path, read_graph(PB))
    found = index.tensors[(MATMUL, TensorIO.OUTPUT, 0)]
    assert (found.shape, found.statistics.maximum) == ((2, 4), 3.0)


def test_kernels_dumped_without_their_scope_are_found(tmp_path):
    source = next(DATA.glob("dump/MatMul*output.0*"))
    shutil.copy(source, tmp_path / "MatMul.MatMul-op0.2.2.1795727148374620.output.0.ND.float32.npy")
    index = scan_dumps(tmp_path, read_graph(PB))
    assert list(index.tensors) == [(MATMUL, TensorIO.OUTPUT, 0)]


@pytest.mark.parametrize("name", [PB.name, "net.mindir", "ms_output_trace_code_graph_2.ir"])
def test_a_cut_file_is_refused_with_its_place(name, tmp_path):
    whole = (DATA / name).read_bytes()
    cut = tmp_path / name
    cut.write_bytes(whole[: 1400 if name.endswith(".ir") else len(whole) * 2 // 3])
    if name.endswith(".ir"):  # a text that ends early may be a whole text of fewer nodes
        cut.write_bytes(whole[: whole.index(b"MatMul(") + 10])
    with pytest.raises(ImportFormatError) as refused:
        read_graph(cut)
    assert refused.value.hint or "cut" in str(refused.value)
