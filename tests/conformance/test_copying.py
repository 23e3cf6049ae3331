"""What is copied or restored is what was there: to every store, from every store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd_run import odd_graph, odd_run

from divergraph.comparison import compare
from divergraph.comparison.demo import demo_request
from graphstore.contract import GraphStore, RunData
from graphstore.embedded import EmbeddedStore
from graphstore.errors import InputError, NameTakenError, UnknownNameError
from graphstore.model import ModelGraph, Op
from graphstore.transfer.backup import write_backup
from graphstore.transfer.copying import Done, copy_entries, copy_entry
from graphstore.transfer.portable import (
    content_hash,
    graph_from_lines,
    graph_lines,
    run_from_lines,
    run_lines,
)
from graphstore.transfer.restore import open_backup, restore
from importers.registry import read_graph

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

Sample = Callable[..., RunData]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[GraphStore]:
    """A second store, a folder; *store* is each engine in turn."""
    with EmbeddedStore(tmp_path / "other") as embedded:
        yield embedded


@pytest.fixture(scope="session")
def demo_run() -> RunData:
    """The run that ``divergraph demo`` makes."""
    return compare(replace(demo_request(), name="demo"))


def text(data: RunData) -> str:
    """All of a run as text: NaN equals NaN there, and a zero has no sign."""
    ordered = replace(data, states=dict(sorted(data.states.items())))
    return repr(ordered).replace("-0.0", "0.0")


def there_and_back(store: GraphStore, other: GraphStore, data: RunData) -> None:
    name = data.run.name
    other.save_run(data)
    assert copy_entry(other, store, name).done is Done.ADDED
    assert text(store.run_data(name)) == text(data)
    assert store.runs() == other.runs()
    assert copy_entry(store, other, name, new_name="back").done is Done.ADDED
    back = other.run_data("back")
    assert text(replace(back, run=replace(back.run, name=name))) == text(data)
    assert copy_entry(other, store, name).done is Done.UNCHANGED


def test_a_run_of_lenet(store: GraphStore, other: GraphStore, demo_run: RunData) -> None:
    there_and_back(store, other, demo_run)


def test_a_run_with_every_kind_of_fact(
    store: GraphStore, other: GraphStore, sample_run: Sample
) -> None:
    there_and_back(store, other, sample_run("first"))


def test_a_run_with_all_that_is_odd(store: GraphStore, other: GraphStore) -> None:
    data = odd_run("odd 'näme' $x")
    other.save_run(data)
    copy_entry(other, store, data.run.name)
    assert text(store.run_data(data.run.name)) == text(data)
    copy_entry(store, other, data.run.name, new_name="back")
    back = other.run_data("back")
    assert text(replace(back, run=data.run)) == text(data)
    assert copy_entry(store, other, data.run.name).done is Done.UNCHANGED


def test_graphs_keep_their_time(store: GraphStore, other: GraphStore, lenet: Path) -> None:
    graph = read_graph(lenet / "model.ckpt.meta")
    other.save_graph(graph, "lenet", created="2020-01-01T00:00:00.000001+00:00")
    copy_entry(other, store, "lenet")
    assert store.graphs() == other.graphs()
    assert store.graph("lenet") == graph
    copy_entry(store, other, "lenet", new_name="again")
    assert [info.created for info in other.graphs()] == ["2020-01-01T00:00:00.000001+00:00"] * 2
    assert other.graph("again") == graph


def test_a_taken_name_is_refused_and_replaced_if_told(
    store: GraphStore, other: GraphStore, sample_run: Sample
) -> None:
    store.save_run(sample_run("first"))
    store.save_graph(sample_run("x").device, "graph")
    newer = sample_run("first", "2027-01-01T00:00:00Z")
    other.save_run(newer)
    other.save_graph(sample_run("x").golden, "graph")
    for name in ("first", "graph"):
        with pytest.raises(NameTakenError):
            copy_entry(other, store, name)
        assert copy_entry(other, store, name, replace_it=True).done is Done.REPLACED
    assert store.runs() == [newer.run]
    assert store.graph("graph") == sample_run("x").golden


def test_several_are_looked_for_before_the_first_is_copied(
    store: GraphStore, other: GraphStore, sample_run: Sample
) -> None:
    other.save_run(sample_run("first"))
    with pytest.raises(UnknownNameError, match="first"):
        list(copy_entries(other, store, ["first", "frist"]))
    assert store.runs() == []


def test_a_graph_that_is_there_is_not_written_again(store: GraphStore, sample_run: Sample) -> None:
    graph = sample_run("x").device
    info = store.save_graph(graph, "mine")
    assert store.save_graph(graph, "mine") == info
    assert store.save_graph(graph, "mine", replace=True) == info
    changed = replace(graph, warnings=("another",))
    with pytest.raises(NameTakenError, match="--replace"):
        store.save_graph(changed, "mine")
    assert store.save_graph(changed, "mine", replace=True).created != info.created
    assert store.graph("mine") == changed


class TestBackup:
    """One file from any store into any store."""

    def test_out_of_one_store_into_another(
        self, store: GraphStore, other: GraphStore, sample_run: Sample, tmp_path: Path
    ) -> None:
        usual, odd = sample_run("usual"), odd_run()
        for data in (usual, odd):
            store.save_run(data)
        store.save_graph(usual.golden, "graph", created="2020-01-01T00:00:00+00:00")
        path = written(store, tmp_path)
        assert restored(path, other) == {
            "graph": Done.ADDED,
            "usual": Done.ADDED,
            "odd": Done.ADDED,
        }
        assert [other.runs(), other.graphs()] == [store.runs(), store.graphs()]
        for data in (usual, odd):
            assert text(other.run_data(data.run.name)) == text(data)
        assert other.graph("graph") == usual.golden
        assert set(restored(path, store).values()) == {Done.UNCHANGED}
        other_path = written(other, tmp_path, "other.backup")
        for name in ("usual", "odd", "graph"):
            store.delete(name)
        assert set(restored(other_path, store).values()) == {Done.ADDED}
        assert text(store.run_data("odd")) == text(odd)

    def test_a_shared_graph_is_in_it_once(
        self, other: GraphStore, demo_run: RunData, tmp_path: Path
    ) -> None:
        other.save_run(demo_run)
        one = written(other, tmp_path, "one").stat().st_size
        other.save_run(replace(demo_run, run=replace(demo_run.run, name="second")))
        path = written(other, tmp_path, "all")
        assert path.stat().st_size < 1.5 * one
        with EmbeddedStore(tmp_path / "third") as third:
            assert restored(path, third) == {"demo": Done.ADDED, "second": Done.ADDED}
            assert text(third.run_data("demo")) == text(demo_run)

    def test_only_what_is_named(
        self, other: GraphStore, store: GraphStore, sample_run: Sample, tmp_path: Path
    ) -> None:
        for name in ("a", "b", "c"):
            other.save_run(sample_run(name))
        path = written(other, tmp_path, names=["a", "b"])
        with pytest.raises(UnknownNameError, match=r"'c'.*it has a, b"):
            restored(path, store, ["c"])
        assert restored(path, store, ["b"]) == {"b": Done.ADDED}
        with pytest.raises(UnknownNameError):
            written(other, tmp_path, "none", names=["a", "d"])

    def test_names_in_use_stop_it_before_anything_is_written(
        self, other: GraphStore, store: GraphStore, sample_run: Sample, tmp_path: Path
    ) -> None:
        other.save_run(sample_run("a"))
        other.save_run(sample_run("b"))
        path = written(other, tmp_path)
        store.save_run(sample_run("b", "2027-01-01T00:00:00Z"))
        with pytest.raises(NameTakenError, match=r"'b'; nothing was written"):
            restored(path, store)
        assert [run.name for run in store.runs()] == ["b"]
        assert restored(path, store, replace_it=True) == {"a": Done.ADDED, "b": Done.REPLACED}
        assert store.runs() == other.runs()

    def test_a_graph_in_the_way_of_a_run_is_never_replaced(
        self, other: GraphStore, store: GraphStore, sample_run: Sample, tmp_path: Path
    ) -> None:
        other.save_run(sample_run("a"))
        path = written(other, tmp_path)
        store.save_graph(sample_run("x").device, "a")
        with pytest.raises(NameTakenError, match="a graph named 'a'"):
            restored(path, store, replace_it=True)

    def test_an_empty_store_has_no_backup(self, other: GraphStore, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="empty"):
            written(other, tmp_path)


def written(
    store: GraphStore, folder: Path, file: str = "all.backup", names: list[str] | None = None
) -> Path:
    path = folder / file
    with path.open("wb") as archive:
        list(write_backup(store, archive, names or []))
    return path


def restored(
    path: Path, store: GraphStore, names: list[str] | None = None, *, replace_it: bool = False
) -> dict[str, Done]:
    with open_backup(path) as backup:
        kept = list(restore(backup, store, names or [], replace_it=replace_it))
    return {item.name: item.done for item in kept}


ANY_TEXT = st.text(max_size=8)
"""Half surrogate pairs included."""


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(ANY_TEXT, min_size=1, max_size=5, unique=True),
    st.dictionaries(
        ANY_TEXT,
        st.recursive(
            st.booleans() | st.integers() | st.floats() | ANY_TEXT,
            lambda inner: st.lists(inner, max_size=3).map(tuple),
            max_leaves=4,
        ),
        max_size=3,
    ),
)
def test_lines_of_any_graph(names: list[str], attrs: dict) -> None:
    whole = odd_graph()
    graph = ModelGraph(
        whole.name,
        whole.kind,
        whole.framework,
        names[0],
        tuple(Op(name, name, names[0], attrs=attrs) for name in names),
        attrs=attrs,
        warnings=tuple(names),
    )
    back = graph_from_lines(graph_lines(graph))
    assert repr(back) == repr(graph)
    assert content_hash(graph_lines(back)) == content_hash(graph_lines(graph))


def test_lines_of_the_odd_run() -> None:
    data = odd_run()
    back = run_from_lines(run_lines(data), data.golden, data.device)
    assert text(back) == text(data)
    assert content_hash(run_lines(back)) == content_hash(run_lines(data))


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b"x\n"],
        [b"{}\n"],
        [b"[]\n"],
        [b"\xff\n"],
        [b"[" * 100_000 + b"\n"],
    ],
)
def test_lines_that_are_none_are_named_by_number(lines: list[bytes]) -> None:
    with pytest.raises(InputError, match=r"line 1|empty"):
        graph_from_lines(lines)
    good = list(graph_lines(odd_graph()))
    with pytest.raises(InputError, match=r"line 3|empty"):
        graph_from_lines([*good[:2], *(lines or [b"null\n"])])
