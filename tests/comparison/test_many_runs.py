"""One run for each rank and step, whoever measures, and what they say together."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from divergraph.comparison import CompareRequest, compare
from divergraph.comparison.chosen_places import Chosen, find_places
from divergraph.comparison.many_runs import compare_many
from divergraph.metrics.pairs.many_pairs import Workers
from divergraph.rootcause.options import MethodChoice
from graphstore.errors import InputError
from graphstore.model import Verdict
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def ranks(lenet, tmp_path_factory) -> CompareRequest:
    """LeNet on two ranks, two steps each; rank 1 goes wrong in step 3."""
    root = tmp_path_factory.mktemp("ranks")
    folders = {}
    for side in ("clean", "fault"):
        dump = lenet / f"npu_{side}" / "dump"
        (folders[side],) = {path.parent for path in dump.rglob("*") if path.is_file()}
    for rank in (0, 1):
        for step in (0, 3):
            side = "fault" if (rank, step) == (1, 3) else "clean"
            model = folders[side].parents[1].name
            place = root / "20240101000000" / str(rank) / model / "61" / str(step)
            shutil.copytree(folders[side], place)
    return CompareRequest(
        golden=lenet / "model.ckpt.meta",
        golden_dump=lenet / "golden",
        device=lenet / "npu_clean" / "graph",
        device_dump=root,
        method=MethodChoice.THRESHOLDS,
    )


ALL = Chosen(None)


def told(data) -> list[str]:
    """The comparisons to the last digit; NaN is not equal to itself."""
    return [repr(comparison) for comparison in data.comparisons]


@pytest.mark.parametrize(
    ("chosen_ranks", "chosen_steps", "places"),
    [
        (ALL, ALL, ["rank0.step0", "rank0.step3", "rank1.step0", "rank1.step3"]),
        (Chosen((1,)), ALL, ["rank1.step0", "rank1.step3"]),
        (None, Chosen((3,)), ["step3"]),
    ],
)
def test_places_are_those_of_the_dump(ranks, chosen_ranks, chosen_steps, places):
    assert [str(place) for place in find_places(ranks, chosen_ranks, chosen_steps)] == places


def test_what_is_not_there_is_refused_with_what_is(ranks):
    with pytest.raises(InputError, match=r"no step 7 .*its steps: 0, 3"):
        list(find_places(ranks, ALL, Chosen((0, 7))))
    golden_only = replace(ranks, device_dump=ranks.golden_dump)
    with pytest.raises(InputError, match="neither dump has ranks"):
        list(find_places(golden_only, ALL, None))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("all", None), ("0,1,4-7", (0, 1, 4, 5, 6, 7)), ("3", (3,)), ("0|5|10", (0, 5, 10))],
)
def test_lists_of_numbers(text, numbers):
    assert Chosen.parsed(text, "--ranks").numbers == numbers


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,,2", "0-99999999"])
def test_no_lists_of_numbers(text):
    with pytest.raises(InputError, match="no list of numbers"):
        Chosen.parsed(text, "--ranks")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_every_place_gets_its_run_on_a_cluster_too(ranks, tmp_path):
    found = {}
    for name, workers in (("serial", Workers(jobs=1)), ("cluster", Workers(cluster="local:2"))):
        with open_store(str(tmp_path / name)) as store:
            request = replace(ranks, workers=workers)
            result = compare_many(store, request, Chosen((1,)), ALL, name="net")
            found[name] = result, [told(store.run_data(run.name)) for run in store.runs()]
            assert [run.name for run in store.runs()] == [f"net.{run.place}" for run in result.runs]
    result = found["serial"][0]
    assert result.first is not None
    assert result.verdict is Verdict.DIVERGED
    assert result.runs[1].origins[0] == "LeNet/conv2/Conv2DRelu"
    assert dict(result.origins)["LeNet/conv2/Conv2DRelu"] == 1
    assert result.counts.ops == 2 * result.runs[0].run.counts.ops
    assert found["serial"][1] == found["cluster"][1]


class StopsAfter:
    """A progress that is interrupted when so many places are done."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.steps: list[int] = []

    def stage(self, text: str, total: int | None = None) -> None:
        """Nothing."""

    def step(self, amount: int = 1, note: str = "") -> None:
        self.steps.append(amount)
        if sum(self.steps) >= self.places:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_an_interrupted_comparison_goes_on_where_it_was(ranks, tmp_path, monkeypatch):
    monkeypatch.setenv("DIVERGRAPH_CACHE", str(tmp_path / "cache"))
    request = replace(ranks, workers=Workers(jobs=2))
    with open_store(str(tmp_path / "store")) as store:
        with pytest.raises(KeyboardInterrupt):
            compare_many(store, request, ALL, ALL, progress=StopsAfter(2))
        (journal,) = (tmp_path / "cache" / "jobs").iterdir()
        told_before = journal.read_text()
        again_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        result = compare_many(store, request, ALL, ALL)
        assert sum(run.created < again_at for run in store.runs()) >= 2, "done again"
        names = [f"run-1.{run.place}" for run in result.runs]
        assert sorted(run.name for run in store.runs()) == names
        assert not list((tmp_path / "cache" / "jobs").iterdir())
        first = [told(store.run_data(name)) for name in names]

        # as if it was killed when all was kept, before the journal was removed
        journal.write_text(told_before)
        again = compare_many(store, request, ALL, ALL)
        assert again.name == "run-1"
        assert sum(run.kept for run in again.runs) >= 2
        assert sum("already there" in run.problem for run in again.runs) <= 2

    with open_store(str(tmp_path / "alone")) as store:
        serial = replace(ranks, workers=Workers(jobs=1, resume=False))
        compare_many(store, serial, ALL, ALL)
        assert [told(store.run_data(name)) for name in names] == first


@pytest.mark.slow
def test_places_that_are_kept_already_are_not_compared_again(ranks, tmp_path, monkeypatch):
    monkeypatch.setenv("DIVERGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("divergraph.comparison.many_runs._TOGETHER", 2)
    request = replace(ranks, workers=Workers(jobs=2))
    with open_store(str(tmp_path / "store")) as store:
        with pytest.raises(KeyboardInterrupt):
            compare_many(store, request, ALL, ALL, progress=StopsAfter(3))
        before = {run.name: run for run in store.runs()}
        assert sorted(before) == ["run-1.rank0.step0", "run-1.rank0.step3"]
        result = compare_many(store, request, ALL, ALL)
        after = {run.name: run for run in store.runs()}
        assert len(after) == sum(run.kept for run in result.runs) == 4
        assert before.items() <= after.items()
        for run in result.runs:
            origins = store.origins(f"run-1.{run.place}")
            assert run.origins == tuple(origin.op for origin in origins)
    assert not list((tmp_path / "cache" / "jobs").iterdir())


@pytest.mark.slow
def test_processes_give_what_one_process_gives(lenet, ranks):
    request = replace(ranks, device_dump=lenet / "npu_fault" / "dump")
    alone = compare(replace(request, workers=Workers(jobs=1)))
    many = compare(replace(request, workers=Workers(jobs=2)))
    assert told(alone) == told(many)
    assert [origin.op for origin in alone.origins] == [origin.op for origin in many.origins]


def test_a_place_that_cannot_be_compared_is_told_and_the_others_go_on(ranks, tmp_path):
    dump = tmp_path / "dump"
    shutil.copytree(ranks.device_dump, dump)
    (model,) = (dump / "20240101000000" / "0").iterdir()
    model.rename(model.with_name("another_model_7"))
    with open_store(str(tmp_path / "store")) as store:
        request = replace(ranks, device_dump=Path(dump))
        result = compare_many(store, request, ALL, Chosen((0,)), name="net")
    broken, whole = result.runs
    assert "no device 0 in this dump" in broken.problem
    assert whole.run is not None
