"""Dumps of statistics instead of values."""

from __future__ import annotations

import pytest

from graphstore.errors import ImportFormatError
from graphstore.model import DType, DumpFormat, Reason, TensorIO, TensorStatistics
from importers.dumps.detect import scan_dumps
from importers.dumps.read import read_array

OUT, IN = TensorIO.OUTPUT, TensorIO.INPUT
STAMP = 1664180560000000
HEAD = (
    "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count,"
    "Nan Count,Negative Inf Count,Positive Inf Count\n"
)
NAME = f"Add.a.1.1.{STAMP}.csv"


@pytest.fixture
def graph(graph_of, op):
    return graph_of(op("a", inputs=("x", None, "y")), ("net/Conv2D-op12", "Conv2D"))


def test_each_line_is_a_tensor(tmp_path, graph):
    (tmp_path / NAME).write_text(
        HEAD
        + "Input,0,48,DT_FLOAT16,ND,2x12,2,-1.5,0.25,24,0,0,0\n"
        + "Input,1,4,DT_INT32,ND,-,7,7,7,1,0,0,0\n"
        + "Output,0,640,DT_FLOAT,NC1HWC0,1x1x2x5x16,1.99,1,1.5,160,1,2,3\n"
    )
    index = scan_dumps(tmp_path, graph)
    assert not index.problems
    # The input left open in the graph is not in the table.
    assert set(index.tensors) == {("a", IN, 0), ("a", IN, 2), ("a", OUT, 0)}
    ref = index.tensors["a", OUT, 0]
    assert (ref.format, ref.dtype, ref.shape) == (
        DumpFormat.STATISTICS,
        DType.FLOAT32,
        (1, 1, 2, 5, 16),
    )
    assert (ref.layout, ref.timestamp) == ("NC1HWC0", STAMP)
    assert ref.statistics == TensorStatistics(160, 1.99, 1.0, 1.5, None, 1, 5)
    with pytest.raises(ImportFormatError, match="statistics of this tensor, no values"):
        read_array(ref)


def test_chosen_columns_come_in_any_order(tmp_path, graph):
    (tmp_path / NAME).write_text(
        "Input/Output,Index,Data Size,Data Type,Format,Shape,Count,l2norm,Max Value\n"
        "Output,0,48,DT_BF16,ND,3x4,12,5.5,inf\n"
    )
    statistics = scan_dumps(tmp_path, graph).tensors["a", OUT, 0].statistics
    assert statistics is not None
    assert (statistics.count, statistics.norm, statistics.mean) == (12, 5.5, None)
    assert statistics.maximum == float("inf")


def test_one_table_for_all_ops_as_mindspore_writes_it(tmp_path, graph):
    (tmp_path / "statistic.csv").write_text(
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,"
        "Max Value,Min Value,L2Norm Value\n"
        f'Conv2D,Default/net/Conv2D-op12,0,0,{STAMP},output,0,96,float32,"(2,12)",3.5,-2,9\n'
        f'Add,a,0,0,{STAMP},input,0,4,int32,"()",3,3,3\n'
        f"Relu,unknown,0,0,{STAMP},output,0,4,int32,(1),3,3,3\n"
    )
    index = scan_dumps(tmp_path, graph)
    # The name with its scope fits no op, its last part written the file's way neither.
    assert set(index.tensors) == {("a", IN, 0)}
    assert index.tensors["a", IN, 0].shape == ()
    assert index.unmatched == (tmp_path / "statistic.csv",)


def test_values_win_over_statistics(tmp_path, graph, write_dump, dumped):
    import numpy as np

    (tmp_path / f"Add.a.1.1.{STAMP + 9}.csv").write_text(
        HEAD + "Output,0,48,DT_FLOAT16,ND,2x12,2,-1.5,0.25,24,0,0,0\n"
    )
    write_dump(tmp_path / f"Add.a.1.1.{STAMP}", [dumped(np.ones((2, 12), np.float32))])
    assert scan_dumps(tmp_path, graph).tensors["a", OUT, 0].statistics is None


def test_the_latest_table_counts(tmp_path, graph):
    line = "Output,0,48,DT_FLOAT16,ND,2x12,{},-1.5,0.25,24,0,0,0\n"
    for stamp, maximum in ((STAMP + 5, 8), (STAMP, 4)):
        (tmp_path / f"Add.a.1.1.{stamp}.csv").write_text(HEAD + line.format(maximum))
    index = scan_dumps(tmp_path, graph)
    assert index.tensors["a", OUT, 0].statistics.maximum == 8
    assert index.superseded == (tmp_path / NAME,)


BROKEN = {
    "empty": ("", "line 1: this is not a table of statistics"),
    "another table": ("a,b\n1,2\n", "line 1: this is not a table of statistics"),
    "no number": (
        HEAD + "Output,0,4,DT_FLOAT,ND,1,big,1,1,1,0,0,0\n",
        "line 2: max value is 'big'",
    ),
    "no direction": (HEAD + "Sideways,0,4,DT_FLOAT,ND,1,1,1,1,1,0,0,0\n", "line 2: 'Sideways'"),
    "huge index": (HEAD + "Output,99999999,4,DT_FLOAT,ND,1,1,1,1,1,0,0,0\n", "line 2:"),
    "huge field": (HEAD + "Output," + "9" * 200_000 + "\n", "no CSV"),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN)
def test_a_damaged_table_is_a_problem_of_its_op(tmp_path, graph, text, said):
    (tmp_path / NAME).write_text(text)
    (problem,) = scan_dumps(tmp_path, graph).problems
    assert (problem.op, problem.reason) == ("a", Reason.UNREADABLE_DUMP)
    assert said in problem.detail
