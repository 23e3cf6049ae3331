"""What of a recorded run is data, and what it makes of data by itself: places, sizes, buffers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import divergraph as dg
from divergraph.values.array_types import Array
from divergraph.values.orders import is_reordered
from graphstore.model import DType, DumpFormat, DumpTensorRef, ResultState, TensorIO, Verdict
from tests.made.recorded_ranks import Call, write_ranks

WORDS = np.array([[3, 1, 0, 2], [2, 2, 1, 3]], np.int64)
TABLE = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
PLACES = np.arange(4, dtype=np.int64)


def embedded(words: Array) -> Call:
    return "Functional.embedding.0.forward", [words, TABLE], {}, [TABLE[words]]


def masked(places: Array) -> Call:
    rows, columns = PLACES[:, None], places[None]
    return "Tensor.__ge__.0.forward", [rows, columns], {}, [rows >= columns]


def buffered(value: float) -> Call:
    memory = np.full(8, value, np.float32)
    return "Tensor.narrow.0.forward", [memory, 0, 0, 4], {}, [memory[:4]]


def exchange(first: int, second: int | None = None) -> list[list[Call]]:
    """Two ranks with four rows each: rank 0 keeps its *first* ones, rank 1 gives its first ones, as
    many as rank 0 gives away or *second*."""
    own = [
        np.random.default_rng(rank).standard_normal((4, 8)).astype(np.float32) for rank in (2, 3)
    ]
    second = 4 - first if second is None else second
    gives = [[first, 4 - first], [second, 4 - second]]
    ranks: list[list[Call]] = []
    for rank in (0, 1):
        sent = [np.split(own[each], [gives[each][0]])[rank] for each in (0, 1)]
        gets = [len(part) for part in sent]
        ranks.append(
            [
                ("Torch.mul.0.forward", [own[rank] / 2, 2], {}, [own[rank]]),
                (
                    "Distributed.all_to_all_single.0.forward",
                    [None, own[rank], gets, gives[rank]],
                    {},
                    [np.concatenate(sent), own[rank], gets, gives[rank]],
                ),
            ]
        )
    return ranks


def test_an_exchange_of_other_rows_is_right_by_its_own_numbers_of_rows(tmp_path):
    for side, first in (("golden", 1), ("device", 3)):
        write_ranks(tmp_path / side / "step0", dict(enumerate(exchange(first))))
    run = dg.compare(tmp_path / "golden", None, tmp_path / "device", None)
    (origin,) = run.data.origins
    assert origin.op == "ranks0-1/Distributed.all_to_all_single.0.forward"
    assert "rank0.3.0 3, golden 1" in origin.cause
    assert all("shape" not in finding.sentence for finding in run.data.findings)


def test_an_exchange_that_gives_ranks_other_numbers_of_rows_is_an_origin(tmp_path):
    """Of right inputs: what it makes has another shape on each rank, which was called clean."""
    for side, first in (("golden", 1), ("device", 3)):
        write_ranks(tmp_path / side / "step0", dict(enumerate(exchange(first, 3))))
    run = dg.compare(tmp_path / "golden", None, tmp_path / "device", None)
    (origin,) = run.data.origins
    assert origin.op == "ranks0-1/Distributed.all_to_all_single.0.forward"
    assert run.data.run.result.state is ResultState.DAMAGED


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_call_that_makes_another_shape_of_right_inputs_is_an_origin(tmp_path, ranks):
    """Of a function nobody can run again."""
    for side, rows in (("golden", 4), ("device", 3)):
        made = TABLE[:rows] * 2
        calls: list[Call] = [
            ("Torch.mul.0.forward", [TABLE / 2, 2], {}, [TABLE]),
            ("Torch.strange.0.forward", [TABLE], {}, [made]),
            ("Functional.relu.0.forward", [made], {}, [np.maximum(made, 0)]),
        ]
        write_ranks(tmp_path / side / "step0", dict.fromkeys(range(ranks), calls))
    run = dg.compare(tmp_path / "golden", None, tmp_path / "device", None)
    assert "another shape" in run.data.origins[0].cause
    assert {origin.type for origin in run.data.origins} == {"strange"}


def layers(off: float, stale: int | None) -> list[Call]:
    """Four linear layers after an update, by which all weights are *off* a little and that of the
    layer *stale* by twenty times as much: it is from before the update."""
    draw, found = np.random.default_rng(4), list[Call]()
    x = draw.standard_normal((6, 16)).astype(np.float32)
    for layer in range(4):
        weight, update = draw.standard_normal((2, 16, 16)).astype(np.float32) / 4
        share = off * (20 if layer == stale else 1)
        weight = weight + np.float32(share) * update
        made = x @ weight.T
        found.append((f"Functional.linear.{layer}.forward", [x, weight], {}, [made]))
        x = np.tanh(made)
        found.append((f"Torch.tanh.{layer}.forward", [made], {}, [x]))
    return found


@pytest.mark.parametrize("stale", [None, 2])
def test_of_weights_that_are_all_updated_one_from_before_stands_out(tmp_path, stale):
    run = compared(layers(0.0, None), layers(0.004, stale), tmp_path)
    calls = [origin.op for origin in run.data.origins]
    assert [call.partition("/")[2] for call in calls] == (
        [] if stale is None else ["Functional.linear.2.forward"]
    )


def compared(golden: list[Call], device: list[Call], folder: Path) -> dg.Run:
    for side, calls in (("golden", golden), ("device", device)):
        write_ranks(folder / side / "step0", {0: calls, 1: calls})
    return dg.compare(folder / "golden", None, folder / "device", None)


def test_places_that_a_run_numbers_otherwise_are_an_origin_and_no_other_data(tmp_path):
    run = compared(
        [embedded(WORDS), masked(PLACES)], [embedded(WORDS), masked(PLACES[::-1])], tmp_path
    )
    assert run.verdict is Verdict.DIVERGED
    (origin,) = run.data.origins
    assert origin.op == "rank0/Tensor.__ge__.0.forward"
    assert origin.cause.startswith("its input 1, whole numbers that no recorded call made")


def test_other_words_are_other_data(tmp_path):
    run = compared(
        [embedded(WORDS), masked(PLACES)], [embedded(WORDS[::-1]), masked(PLACES)], tmp_path
    )
    assert run.verdict is Verdict.INPUTS_DIFFER


def test_what_a_buffer_holds_that_nothing_reads_is_no_data(tmp_path):
    run = compared([buffered(2.0), embedded(WORDS)], [buffered(np.nan), embedded(WORDS)], tmp_path)
    assert run.verdict in (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)


def dumped(values: Array, folder: Path) -> DumpTensorRef:
    path = folder / f"{len(list(folder.iterdir()))}.bin"
    np.ascontiguousarray(values).tofile(path)
    raw, out, size = DumpFormat.RAW, TensorIO.OUTPUT, values.nbytes
    return DumpTensorRef(path, raw, "op", out, 0, DType.FLOAT32, values.shape, 0, size)


@pytest.mark.parametrize(
    ("values", "expected"), [(TABLE[::-1], True), (TABLE, False), (TABLE * 2, False)]
)
def test_values_in_another_order(values, expected, tmp_path):
    assert is_reordered(*(dumped(each, tmp_path) for each in (TABLE, values))) is expected


def chosen(near: float) -> list[Call]:
    """What chooses between numbers that lie *near* to each other."""
    scores = np.array([[1.0, 1.0 + near], [3.0, 1.0]], np.float32)
    return [
        ("Torch.neg.0.forward", [-scores], {}, [scores]),
        ("Torch.argmax.0.forward", [scores, -1], {}, [scores.argmax(-1)]),
    ]


def optimised(near: float, gradient: Array) -> list[Call]:
    """What chooses between numbers that lie *near* to each other, and a step with a *gradient* that
    no recorded call made."""
    before = TABLE / 8
    return [
        *chosen(near),
        (
            "Tensor.lerp_.0.forward",
            [before, gradient, 0.25],
            {},
            [before + np.float32(0.25) * (gradient - before)],
        ),
    ]


@pytest.mark.parametrize("summed", [True, False])
def test_ranks_step_with_one_gradient_whatever_was_chosen_before(tmp_path, summed):
    """A gradient that is off behind another choice may follow from it, but not one on each rank."""
    own = np.random.default_rng(5).standard_normal((2, 4, 8)).astype(np.float32)
    mean, off = own.mean(0), np.float32(0.3) * own[0]
    gradients = [mean + off] * 2 if summed else list(own)
    write_ranks(tmp_path / "golden" / "step0", dict.fromkeys((0, 1), optimised(1e-7, mean)))
    device = {rank: optimised(-1e-7, gradient) for rank, gradient in enumerate(gradients)}
    write_ranks(tmp_path / "device" / "step0", device)
    origins = dg.compare(tmp_path / "golden", None, tmp_path / "device", None).data.origins
    assert [origin.op for origin in origins] == ([] if summed else ["rank0/Tensor.lerp_.0.forward"])
    assert summed or "all_reduce" in origins[0].cause


def test_a_stage_that_reads_no_words_has_its_micro_batches_in_their_order(tmp_path):
    """Whole numbers it has as golden does, such as places of a mask, say nothing of the batch."""
    words = np.arange(12, dtype=np.int64).reshape(4, 3)
    x = np.random.default_rng(6).standard_normal((4, 3, 8)).astype(np.float32)
    places = np.arange(9, dtype=np.int64).reshape(3, 3)

    def calls(number: int, part: slice) -> tuple[Call, Call]:
        return (
            (f"Module.first.First.forward.{number}", [words[part]], {}, [x[part]]),
            (f"Module.last.Last.forward.{number}", [x[part], places], {}, [np.sin(x[part])]),
        )

    write_ranks(tmp_path / "golden" / "step0", {0: calls(0, slice(None))})
    first, second = calls(0, slice(2)), calls(1, slice(2, 4))
    device = {rank: [first[rank], second[rank]] for rank in (0, 1)}
    write_ranks(tmp_path / "device" / "step0", device)
    run = dg.compare(tmp_path / "golden", None, tmp_path / "device", None)
    assert run.verdict is Verdict.CLEAN
    stage = [each for each in run.data.comparisons if each.op.startswith("rank1/")]
    assert len(stage) == 6
    assert all(each.metrics is not None for each in stage)


@pytest.mark.parametrize("near", [-1e-7, 1e-7])
def test_rows_that_an_exchange_gives_back_follow_what_was_chosen_before(tmp_path, near):
    """Behind another choice they are put in another order, which is no fault of who reads them."""
    rows = [
        np.random.default_rng(rank).standard_normal((4, 8)).astype(np.float32) for rank in (7, 8)
    ]
    received = [np.concatenate([own[2 * rank : 2 * rank + 2] for own in rows]) for rank in (0, 1)]

    def calls(rank: int, near: float) -> list[Call]:
        order = [0, 2, 1, 3] if near > 0 else [2, 0, 3, 1]
        sizes, read = [2, 2], received[rank][order]
        return [
            *chosen(near),
            ("Torch.mul.1.forward", [rows[rank] / 2, 2], {}, [rows[rank]]),
            (
                "Distributed.all_to_all_single.0.forward",
                [None, rows[rank], sizes, sizes],
                {},
                [received[rank], rows[rank], sizes, sizes],
            ),
            ("Torch.mul.2.forward", [read, 3], {}, [read * 3]),
        ]

    for side, own in (("golden", 1e-7), ("device", near)):
        write_ranks(tmp_path / side / "step0", {rank: calls(rank, own) for rank in (0, 1)})
    run = dg.compare(tmp_path / "golden", None, tmp_path / "device", None)
    assert run.verdict in (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)


@pytest.mark.parametrize("lost", [False, True])
def test_an_exchange_of_other_rows_is_run_again_on_what_ranks_gave(tmp_path, lost):
    """Behind another choice golden has other rows, and not as many."""
    for side, near, given in (("golden", 1e-7, (1, 3)), ("device", -1e-7, (3, 2))):
        ranks = [[*chosen(near), *calls] for calls in exchange(*given)]
        if lost and side == "device":
            ranks[1][-1][3][0][:1] = 0
        write_ranks(tmp_path / side / "step0", dict(enumerate(ranks)))
    run = dg.compare(tmp_path / "golden", None, tmp_path / "device", None)
    assert [origin.op for origin in run.data.origins] == (
        ["ranks0-1/Distributed.all_to_all_single.0.forward"] if lost else []
    )
    assert not lost or "all zero" in run.data.origins[0].cause


@pytest.mark.parametrize("summed", [True, False])
def test_ranks_that_multiply_means_over_their_own_words_lack_a_sum(tmp_path, summed):
    """As in the loss that balances experts: no sum over ranks of such products is golden's."""
    words = np.random.default_rng(8).integers(0, 4, (4, 3))
    x = TABLE[words]
    mean = x.mean(0)
    whole = "Module.balance.Balance.forward.0"
    inside = ("Torch.mean.0", "Torch.abs.0", "Torch.mean.1", "Torch.div.0", "Torch.mul.0")
    reduction = "Distributed.all_reduce.0.forward"

    def calls(part: slice, count: int) -> list[Call]:
        own, own_size = x[part].mean(0), np.abs(x[part]).mean(0)
        factor = mean if summed else own
        made: list[Call] = [
            ("Functional.embedding.0.forward", [words[part], TABLE], {}, [x[part]]),
            ("Torch.mean.0.forward", [x[part], 0], {}, [own]),
            ("Torch.abs.0.forward", [x[part]], {}, [np.abs(x[part])]),
            ("Torch.mean.1.forward", [np.abs(x[part]), 0], {}, [own_size]),
            (reduction, [own], {}, [mean * count]),
            ("Torch.div.0.forward", [mean * count, count], {}, [mean]),
            ("Torch.mul.0.forward", [factor, own_size], {}, [factor * own_size]),
            (whole, [x[part]], {}, [x[part]]),
        ]
        return made if summed and count > 1 else [*made[:4], *made[6:]]

    owned = {f"{name}.forward": whole for name in inside} | {reduction: whole}
    write_ranks(tmp_path / "golden" / "step0", {0: calls(slice(4), 1)}, owned)
    device = {rank: calls(slice(2 * rank, 2 * rank + 2), 2) for rank in (0, 1)}
    write_ranks(tmp_path / "device" / "step0", device, owned)
    origins = dg.compare(tmp_path / "golden", None, tmp_path / "device", None).data.origins
    assert [origin.op for origin in origins] == ([] if summed else [f"rank0/{whole}"])
    assert summed or "rank0/Torch.mul.0.forward multiplies" in origins[0].cause


def test_scores_of_keys_that_came_by_a_ring_are_in_the_order_of_turns(tmp_path):
    """Each rank has those of its own keys first."""
    words = np.random.default_rng(9).integers(0, 4, (2, 4))
    x = TABLE[words]
    scores = np.random.default_rng(10).standard_normal((2, 4, 4)).astype(np.float32)

    def calls(places: slice, keys: list[int]) -> list[Call]:
        own = scores[:, places][..., keys]
        weights = np.exp(own) / np.exp(own).sum(-1, keepdims=True)
        return [
            ("Functional.embedding.0.forward", [words[:, places], TABLE], {}, [x[:, places]]),
            ("Torch.softmax.0.forward", [own, -1], {}, [weights]),
        ]

    write_ranks(tmp_path / "golden" / "step0", {0: calls(slice(4), [0, 1, 2, 3])})
    device = {0: calls(slice(2), [0, 1, 2, 3]), 1: calls(slice(2, 4), [2, 3, 0, 1])}
    write_ranks(tmp_path / "device" / "step0", device)
    run = dg.compare(tmp_path / "golden", None, tmp_path / "device", None)
    assert run.verdict is Verdict.CLEAN
    read = [each for each in run.data.comparisons if "softmax" in each.op]
    assert all(each.compared for each in read)
