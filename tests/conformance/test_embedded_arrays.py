"""Arrays kept beside a database say what the database says, whatever happened to them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_run import hostile_run
from odd_run import odd_run
from shaped_runs import chain_run

from graphstore.contract import RunData
from graphstore.embedded import EmbeddedStore, outline_files
from graphstore.model import Side

PATTERN = "runs/*/arrays-*"


@pytest.fixture
def all_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small graphs, too."""
    monkeypatch.setattr(outline_files, "_WORTH", 1)


@pytest.fixture
def root(tmp_path: Path, sample_run: Callable[..., RunData], all_are_kept: None) -> Path:
    """A store with a run whose arrays are kept."""
    with EmbeddedStore(tmp_path) as store:
        store.save_run(sample_run("one"))
    assert len(list(tmp_path.glob(PATTERN))) == 2
    return tmp_path


def asked(root: Path, *, read_only: bool = False) -> list[Any]:
    """What a new process learns of the graphs of the first run."""
    found = list[Any]()
    with EmbeddedStore(root, read_only=read_only) as store:
        name = store.runs()[0].name
        for side in Side:
            columns = store.graph_columns(name, side)
            arrays, given = columns.arrays, columns.given
            assert [arrays.number[op] for op in arrays.ids] == list(range(len(arrays.ids)))
            found.append((arrays.ids, columns.names, columns.types, columns.exact))
            found.append((list(given), given.names))
            ends = (arrays.successor_ops, arrays.successor_start)
            ends += (arrays.predecessor_ops, arrays.predecessor_start)
            assert {column.dtype for column in ends} == {np.dtype(np.int32)}
            found.append([column.tolist() for column in ends])
            if side is Side.DEVICE:
                last = {"op": arrays.ids[-1]}
                found.append(store.named("op_search", name, {"text": "a"}).rows)
                found.append(store.named("ancestors", name, last).rows)
    return found


def half_named() -> RunData:
    """A run with an op whose name no database holds."""
    data = odd_run()
    first, *others = data.device.ops
    ops = (replace(first, name="half \ud83d"), *others)
    return replace(data, device=replace(data.device, ops=ops))


def spoil(path: Path, how: str) -> None:
    whole = path.read_bytes()
    path.unlink()
    if how == "cut":
        path.write_bytes(whole[:-1])
    elif how == "flipped":
        path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "without lines":
        path.write_bytes(b"1 " * 500)
    elif how == "of another graph":
        shutil.copyfile(next(path.parent.glob("arrays-*")), path)


@pytest.mark.parametrize("make", [odd_run, hostile_run, half_named])
def test_the_second_process_is_told_the_same(
    tmp_path: Path, all_are_kept: None, make: Callable[[], RunData]
) -> None:
    with EmbeddedStore(tmp_path) as store:
        store.save_run(make())
    as_saved = {path: path.read_bytes() for path in tmp_path.glob(PATTERN)}
    for path in as_saved:
        path.unlink()
    first = asked(tmp_path, read_only=True)
    assert asked(tmp_path) == asked(tmp_path) == first
    assert {path: path.read_bytes() for path in tmp_path.glob(PATTERN)} == as_saved != {}
    assert store_says_nothing(tmp_path)


def test_the_second_process_reads_the_graphs_no_more(root: Path) -> None:
    first = asked(root)
    tables = next(root.glob("runs/one/tables*"))
    tables.rename(root / "away")
    with EmbeddedStore(root) as store:
        again = {side: store.arrays("one", side).ids for side in Side}
        assert store.named("ancestors", "one", {"op": again[Side.DEVICE][-1]}).rows == first[-1]
    (root / "away").rename(tables)
    assert list(again.values()) == [first[0][0], first[3][0]]


@pytest.mark.parametrize(
    "how", ["lost", "cut", "flipped", "empty", "without lines", "of another graph"]
)
def test_arrays_that_are_not_right_are_said_and_made_again(root: Path, how: str) -> None:
    first = asked(root)
    path = next(root.glob(PATTERN))
    whole = path.read_bytes()
    spoil(path, how)
    with EmbeddedStore(root) as store:
        sentence = f"damaged or old arrays of the run 'one': {path.name}"
        assert store.info().pending == (() if how == "lost" else (sentence,))
    assert asked(root, read_only=True) == first
    assert asked(root) == first
    assert path.read_bytes() == whole
    assert store_says_nothing(root)


def test_repair_removes_them(root: Path) -> None:
    path = next(root.glob(PATTERN))
    spoil(path, "flipped")
    with EmbeddedStore(root) as store:
        assert store.repair() == (f"removed damaged or old arrays of the run 'one': {path.name}",)
    assert not path.exists()


def test_a_run_written_anew_has_its_own(root: Path) -> None:
    before, data = asked(root), odd_run()
    with EmbeddedStore(root) as store:
        store.save_run(replace(data, run=replace(data.run, name="one")), replace=True)
        assert len(store.arrays("one").ids) == len(data.device.ops)
    assert asked(root) == asked(root) != before
    assert store_says_nothing(root)


def test_large_graphs_are_kept_by_who_saves_and_may_write(
    tmp_path: Path, sample_run: Callable[..., RunData]
) -> None:
    with EmbeddedStore(tmp_path) as store:
        store.save_run(sample_run("small"))
    asked(tmp_path)
    with EmbeddedStore(tmp_path) as store:
        store.delete("small")
        store.save_run(chain_run("large", "chain", 10_000))
    first = asked(tmp_path)
    as_saved = list(tmp_path.glob(PATTERN))
    assert len(as_saved) == 2
    for path in as_saved:
        path.unlink()
    assert asked(tmp_path, read_only=True) == first
    assert not list(tmp_path.glob(PATTERN))
    assert asked(tmp_path) == first
    assert len(list(tmp_path.glob(PATTERN))) == 2


def store_says_nothing(root: Path) -> bool:
    with EmbeddedStore(root) as store:
        info = store.info()
        return info.pending == info.damaged == () == store.check()
