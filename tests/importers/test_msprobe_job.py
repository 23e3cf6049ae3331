"""The ranks of a job as one graph, joined by the calls between ranks."""

from __future__ import annotations

import numpy as np
import pytest

from graphstore.model import TensorIO
from importers.msprobe.importer import MsprobeImporter
from importers.msprobe.job_index import scan_job
from importers.msprobe.job_names import CALLS, RANK, RANKS
from tests.made.recorded_ranks import write_ranks

READ = MsprobeImporter().read


def values(seed: int, size: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def doubled(number: int, value: np.ndarray) -> tuple:
    return f"Torch.mul.{number}.forward", [value, 2], {}, [2 * value]


@pytest.fixture
def reduced(tmp_path):
    """Two ranks that double their tensor, add up what both have, and double it again."""
    own = {rank: values(rank) for rank in (0, 1)}
    total = 2 * own[0] + 2 * own[1]
    return write_ranks(
        tmp_path / "step0",
        {
            rank: [
                doubled(0, value),
                ("Distributed.all_reduce.0.forward", [2 * value], {}, [total]),
                doubled(1, total),
            ]
            for rank, value in own.items()
        },
    )


def test_a_collective_is_one_op_of_all_ranks(reduced):
    graph = READ(reduced)
    assert [op.name for op in graph.ops] == [
        "rank0/Torch.mul.0.forward",
        "rank1/Torch.mul.0.forward",
        "ranks0-1/Distributed.all_reduce.0.forward",
        "rank1/Torch.mul.1.forward",
        "rank0/Torch.mul.1.forward",
    ]
    between = graph.ops[2]
    assert [ref.op for ref in between.takes] == [
        "rank0/Torch.mul.0.forward",
        "rank1/Torch.mul.0.forward",
    ]
    assert between.attrs[RANKS] == (0, 1)
    assert between.attrs[CALLS] == ("Distributed.all_reduce.0.forward",) * 2
    assert [(op.attrs[RANK], str(op.takes[0])) for op in graph.ops[3:]] == [
        (1, f"{between.id}:1"),
        (0, f"{between.id}:0"),
    ]


def test_a_call_whose_group_is_without_its_rank_is_that_ranks_alone(tmp_path):
    def calls(value: np.ndarray) -> list[tuple]:
        between = "Distributed.all_reduce.0.forward", [2 * value], {"group": (0,)}, [3 * value]
        return [doubled(0, value), between, doubled(1, 3 * value)]

    graph = READ(write_ranks(tmp_path / "step0", {rank: calls(values(rank)) for rank in (0, 1)}))
    assert [op.name for op in graph.ops if op.type.endswith("all_reduce")] == [
        "ranks0/Distributed.all_reduce.0.forward",
        "rank1/Distributed.all_reduce.0.forward",
    ]
    assert len(graph.ops) == 6


def test_all_tensors_of_all_ranks_are_indexed(reduced):
    graph = READ(reduced)
    index = scan_job(reduced, graph)
    between = graph.ops[2].id
    paths = {
        (io.value, port): ref.path.relative_to(reduced).parts[0]
        for (op, io, port), ref in index.tensors.items()
        if op == between
    }
    assert paths == {
        ("input", 0): "rank0",
        ("input", 1): "rank1",
        ("output", 0): "rank0",
        ("output", 1): "rank1",
    }
    assert len(index.tensors) == 12
    assert not index.notes


def test_groups_are_told_apart_and_counted_by_themselves(tmp_path):
    def call(number: int, group: tuple[int, ...]) -> tuple:
        some = values(number)
        return f"Distributed.all_reduce.{number}.forward", [some], {"group": group}, [some]

    step = write_ranks(
        tmp_path / "step0",
        {
            0: [call(0, (0, 2)), call(1, (0, 1, 2))],
            1: [call(0, (0, 1, 2))],
            2: [call(0, (0, 2)), call(1, (0, 1, 2))],
        },
    )
    assert [op.id for op in READ(step).ops] == [
        "ranks0,2/Distributed.all_reduce.0.forward",
        "ranks0-2/Distributed.all_reduce.1.forward",
    ]


def test_what_is_only_written_is_no_input_and_what_is_kept_no_output(tmp_path):
    parts = [values(0), values(1)]
    empty = [np.zeros(6, np.float32)] * 2
    step = write_ranks(
        tmp_path / "step0",
        {
            rank: [
                (
                    "Distributed.all_gather.0.forward",
                    [],
                    {"tensor_list": empty, "tensor": parts[rank]},
                    [parts, parts[rank]],
                ),
                doubled(0, parts[rank]),
            ]
            for rank in (0, 1)
        },
    )
    between = next(op for op in READ(step).ops if RANKS in op.attrs)
    begin = len(between.name) + 1
    assert [ref.tensor[begin:] for ref in between.inputs] == [
        "input.rank0.tensor",
        "input.rank1.tensor",
    ]
    assert [tensor.name[begin:] for tensor in between.outputs] == [
        "output.rank0.0.0",
        "output.rank0.0.1",
        "output.rank1.0.0",
        "output.rank1.0.1",
    ]


def test_messages_of_a_ring_are_ops_of_two_ranks(tmp_path):
    def batch(rank: int) -> list:
        own, came = values(rank), values((rank - 1) % 3)
        before = [
            {"tensor": own, "op": "isend", "peer": (rank + 1) % 3, "tag": 0},
            {"tensor": 0 * came, "op": "irecv", "peer": (rank - 1) % 3, "tag": 0},
        ]
        after = [before[0], {**before[1], "tensor": came}]
        return [
            ("Distributed.batch_isend_irecv.0.forward", [before], {}, [after]),
            doubled(0, came),
        ]

    graph = READ(write_ranks(tmp_path / "step0", {rank: batch(rank) for rank in range(3)}))
    readers = {
        op.takes[0].op.partition("/")[0]: op.attrs[RANK] for op in graph.ops if RANK in op.attrs
    }
    assert readers == {"ranks2>0": 0, "ranks0>1": 1, "ranks1>2": 2}


@pytest.mark.parametrize("is_read", [True, False])
def test_what_was_dumped_before_it_had_come_is_left_out(tmp_path, is_read):
    """Calls that do not wait may be dumped so: then no call reads what the dump has."""
    sent, dumped = values(0), values(5)

    def batch(before: dict, after: dict) -> tuple:
        return "Distributed.batch_isend_irecv.0.forward", [[before]], {}, [[after]]

    given = {"tensor": sent, "op": "isend", "peer": 1, "tag": 0}
    came = {"tensor": dumped, "op": "irecv", "peer": 0, "tag": 0}
    reader = doubled(0, dumped if is_read else sent)
    step = write_ranks(
        tmp_path / "step0",
        {0: [batch(given, given)], 1: [batch({**came, "tensor": 0 * sent}, came), reader]},
    )
    graph = READ(step)
    assert [ref.op.partition("/")[0] for ref in graph.ops[-1].takes] == ["ranks0>1"]
    index = scan_job(step, graph)
    message = [key for key in index.tensors if "0>1/" in key[0] and key[1] is TensorIO.OUTPUT]
    assert len(message) == 1 + is_read  # what was sent is there as well
    assert len(index.problems) == (not is_read)


def test_a_receiver_comes_behind_its_sender(tmp_path):
    some = values(0)
    step = write_ranks(
        tmp_path / "step0",
        {
            0: [("Distributed.recv.0.forward", [None, 1], {}, [some, 1]), doubled(0, some)],
            1: [doubled(0, some / 2), ("Distributed.send.0.forward", [some, 0], {}, [some, 0])],
        },
    )
    assert [op.id for op in READ(step).ops] == [
        "rank1/Torch.mul.0.forward",
        "ranks1>0/Distributed.send.0.forward",
        "rank0/Torch.mul.0.forward",
    ]


def test_a_call_that_a_rank_leaves_out_is_there_with_the_others(tmp_path):
    some = values(0)
    step = write_ranks(
        tmp_path / "step0",
        {
            0: [("Distributed.all_reduce.0.forward", [some], {}, [some]), doubled(0, some)],
            1: [doubled(0, some)],
        },
    )
    between = next(op for op in READ(step).ops if RANKS in op.attrs)
    assert between.attrs[RANKS] == (0,)


def test_calls_in_an_order_that_waits_for_ever_are_read_all_the_same(tmp_path):
    def call(kind: str) -> tuple:
        return f"Distributed.{kind}.0.forward", [values(0)], {}, [values(1)]

    step = write_ranks(
        tmp_path / "step0",
        {0: [call("all_reduce"), call("reduce")], 1: [call("reduce"), call("all_reduce")]},
    )
    assert sorted(op.id for op in READ(step).ops) == [
        "ranks0-1/Distributed.all_reduce.0.forward",
        "ranks0-1/Distributed.reduce.0.forward",
        "ranks0-1/late/Distributed.all_reduce.0.forward",
    ]


def test_gradients_that_autograd_adds_up_for_a_collective_are_known(tmp_path):
    """What two calls read has two gradients; their sum, which no call makes, is summed over
    ranks."""

    def calls(rank: int) -> list[tuple]:
        x, first, second = (values(rank + seed, 64) for seed in (0, 10, 20))
        added = 3 * first + 5 * second
        return [
            doubled(0, x),
            ("Torch.mul.1.forward", [2 * x, 3], {}, [6 * x]),
            ("Torch.mul.2.forward", [2 * x, 5], {}, [10 * x]),
            ("Torch.mul.2.backward", [second], {}, [5 * second]),
            ("Torch.mul.1.backward", [first], {}, [3 * first]),
            ("Distributed.all_reduce.0.forward", [added], {}, [added]),
        ]

    graph = READ(write_ranks(tmp_path / "step0", {rank: calls(rank) for rank in (0, 1)}))
    (between,) = (op for op in graph.ops if RANKS in op.attrs)
    assert {(ref.tensor, ref.producer.op) for ref in between.inputs if ref.producer} == {
        (f"{between.name}.input.rank{rank}.0 (gradient)", f"rank{rank}/Torch.mul.{call}.backward")
        for rank in (0, 1)
        for call in (1, 2)
    }
