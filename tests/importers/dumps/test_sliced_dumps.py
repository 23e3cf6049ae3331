"""Ops that ran in slices, dumped slice by slice and put together again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphstore.model import Reason, TensorIO
from importers.dumps.detect import scan_dumps
from importers.dumps.read import read_array
from importers.proto.messages import dump_data_pb2 as pb

OUT, IN = TensorIO.OUTPUT, TensorIO.INPUT
STAMP = 1664180560000000
WHOLE = np.arange(48, dtype=np.float32).reshape(8, 6)


def write_slice(path, outputs, attribute, inputs=()):
    """One dump file of version 2 with the op attribute of FFTS+."""
    header = pb.DumpData(version=b"2.0")
    for entries, arrays in ((header.input, inputs), (header.output, outputs)):
        for array in arrays:
            entry = entries.add()
            entry.data_type, entry.format, entry.size = 1, 2, array.nbytes
            entry.shape.dim.extend(array.shape)
    if attribute is not None:
        header.attr.add(name=b"ffts", value=json.dumps(attribute).encode())
    raw = header.SerializeToString()
    data = b"".join(array.tobytes() for array in (*inputs, *outputs))
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)


def threads(count, cut, ranges=None):
    return {
        "threadMode": 1,
        "slice_instance_num": count,
        "outputCutList": [cut],
        "inputCutList": [],
        "output_tensor_slice": ranges or [],
        "input_tensor_slice": [],
    }


def span(low, high):
    return {"lower": low, "higher": high}


@pytest.mark.parametrize("axis", [0, 1])
def test_threads_are_put_together_along_the_axis_that_is_cut(tmp_path, graph_of, axis):
    cut = [2 if axis == place else 1 for place in (0, 1)]
    for thread, part in enumerate(np.split(WHOLE, 2, axis)):
        name = f"Add.a.9.1.{STAMP - thread}.4.12.{thread}.0"
        write_slice(tmp_path / name, [part], threads(2, cut))
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    ref = index.tensors["a", OUT, 0]
    assert (ref.shape, len(ref.parts)) == ((8, 6), 2)
    assert np.array_equal(read_array(ref), WHOLE)
    assert not index.problems


def test_uneven_threads_lie_where_their_ranges_say(tmp_path, graph_of):
    rows = [(0, 3), (3, 6), (6, 8)]
    ranges = [[[span(low, high), span(0, 6)]] for low, high in rows]
    for thread, (low, high) in enumerate(rows):
        name = f"Add.a.9.1.{STAMP}.4.12.{thread}.0"
        write_slice(tmp_path / name, [WHOLE[low:high]], threads(3, [3, 1], ranges))
    ref = scan_dumps(tmp_path, graph_of(("a", "Add"))).tensors["a", OUT, 0]
    assert np.array_equal(read_array(ref), WHOLE)


def test_slices_that_overlap_as_inputs_of_convolutions_do(tmp_path, graph_of, op):
    rows = [(0, 5), (3, 8)]
    attribute = threads(2, [2, 1]) | {
        "input_tensor_slice": [[[span(low, high), span(0, 6)]] for low, high in rows]
    }
    for thread, (low, high) in enumerate(rows):
        half = WHOLE[4 * thread : 4 * thread + 4]
        name = f"Conv2D.a.9.1.{STAMP}.4.12.{thread}.0"
        write_slice(tmp_path / name, [half], attribute, [WHOLE[low:high]])
    index = scan_dumps(tmp_path, graph_of(op("a", "Conv2D", inputs=("x",))))
    assert np.array_equal(read_array(index.tensors["a", IN, 0]), WHOLE)
    assert np.array_equal(read_array(index.tensors["a", OUT, 0]), WHOLE)


def test_manual_slices_are_told_by_the_name(tmp_path, graph_of):
    attribute = threads(2, [2, 1]) | {"threadMode": 0}
    for place, part in enumerate(np.split(WHOLE, 2)):
        name = f"Add._sgt_graph_3_a_lxslice{place}.9.1.{STAMP}"
        write_slice(tmp_path / name, [part], attribute)
    ref = scan_dumps(tmp_path, graph_of(("a", "Add"))).tensors["a", OUT, 0]
    assert np.array_equal(read_array(ref), WHOLE)


def test_ten_threads_lie_in_the_order_of_their_numbers(tmp_path, graph_of):
    whole = np.arange(10, dtype=np.float32)
    for thread in range(10):
        name = f"Add.a.9.1.{STAMP}.4.12.{thread}.0"
        write_slice(tmp_path / name, [whole[thread : thread + 1]], threads(10, [10]))
    ref = scan_dumps(tmp_path, graph_of(("a", "Add"))).tensors["a", OUT, 0]
    assert np.array_equal(read_array(ref), whole)


def test_of_each_thread_the_latest_dump_counts(tmp_path, graph_of):
    for thread, part in enumerate(np.split(WHOLE, 2)):
        name = f"Add.a.9.1.{STAMP + thread}.4.12.{thread}.0"
        write_slice(tmp_path / name, [part], threads(2, [2, 1]))
    old = tmp_path / f"Add.a.9.1.{STAMP - 1}.4.12.0.0"
    write_slice(old, [WHOLE[:4] * 0], threads(2, [2, 1]))
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    assert index.superseded == (old,)
    assert np.array_equal(read_array(index.tensors["a", OUT, 0]), WHOLE)


def test_a_later_whole_dump_wins_over_slices(tmp_path, graph_of):
    for thread, part in enumerate(np.split(WHOLE, 2)):
        name = f"Add.a.9.1.{STAMP}.4.12.{thread}.0"
        write_slice(tmp_path / name, [part], threads(2, [2, 1]))
    write_slice(tmp_path / f"Add.a.9.1.{STAMP + 5}", [WHOLE * 2], None)
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    assert np.array_equal(read_array(index.tensors["a", OUT, 0]), WHOLE * 2)
    assert len(index.superseded) == 2


BROKEN = {
    "a thread is missing": (threads(3, [3, 1]), "only 2 of 3 slices"),
    "cut twice": (threads(2, [2, 2]), "does not say how they lie"),
    "cut of another rank": (threads(2, [2]), "does not say how they lie"),
    "no attribute": (None, "does not say how they lie"),
    "ranges with a gap": (
        threads(2, [2, 1], [[[span(0, 4), span(0, 6)]], [[span(5, 9), span(0, 6)]]]),
        "leave gaps",
    ),
    "ranges far away": (
        threads(
            2, [2, 1], [[[span(0, 4), span(0, 6)]], [[span(1 << 60, (1 << 60) + 4), span(0, 6)]]]
        ),
        "leave gaps",
    ),
}


@pytest.mark.parametrize(("attribute", "said"), BROKEN.values(), ids=BROKEN)
def test_slices_that_make_no_whole_are_told(tmp_path, graph_of, attribute, said):
    for thread, part in enumerate(np.split(WHOLE, 2)):
        write_slice(tmp_path / f"Add.a.9.1.{STAMP}.4.12.{thread}.0", [part], attribute)
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    assert not index.tensors
    (problem,) = index.problems
    assert problem.reason is Reason.LAYOUT_UNSUPPORTED
    assert said in problem.detail
