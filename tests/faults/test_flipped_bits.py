"""Bits of a stored run that turn over: each is told or made up for, none is an answer."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from full_run import sample_run
from store_contents import flip, tables_of

from graphstore.contract import QueryParameters
from graphstore.embedded import EmbeddedStore, outline_files
from graphstore.errors import StoreError
from graphstore.model import Side

pytestmark = pytest.mark.thorough

QUICK, ALL = 60, 500
JSON = ("runs/first/manifest.json", "store.json")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_run(sample_run("first"))
    return tmp_path / "store"


BY_HAND = "MATCH (o:Op) RETURN o.type, count(*) ORDER BY o.type"


def answers(root: Path) -> tuple[object, ...]:
    """What commands, the UI and reports ask of a run."""
    with EmbeddedStore(root) as store:
        data = store.run_data("first")
        rows = store.query(BY_HAND, QueryParameters(), "first").rows
        return store.runs(), repr(data), rows


def flipped(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def what_is_said(
    root: Path, right: tuple[object, ...], ask: Callable[[Path], tuple[object, ...]] = answers
) -> str:
    """The error instead of an answer; no other answer is one."""
    try:
        found = ask(root)
    except StoreError as error:
        return str(error)
    assert found == right
    return ""


def view_of(root: Path) -> Path:
    """The database that was made last: a run whose manifest was touched gets another one."""
    views = root.glob("scratch/view-*/graph.lbug")
    return max(views, key=lambda path: path.stat().st_mtime_ns)


def check_flips(root: Path, count: int) -> None:
    """Half of the bits in the view and the tables, the others in the two small files."""
    right = answers(root)
    chosen = random.Random(21)
    tables = sorted((root / "runs/first/tables").iterdir())
    told = 0
    for number in range(count):
        view = view_of(root)
        database = view if number % 4 else chosen.choice(tables)
        path = database if number % 2 == 0 else root / JSON[number // 2 % 2]
        bit = chosen.randrange(8 * path.stat().st_size)
        flipped(path, bit)
        said = what_is_said(root, right)
        told += bool(said)
        # that of a blank in JSON may count for nothing, and so may that of a table nobody read
        assert not said or (path != view and path.name in said), (path, bit, said)
        if path != view:  # that was made again
            flipped(path, bit)
    assert answers(root) == right
    assert told > 0.45 * count


def test_a_flipped_bit_is_told_or_changes_nothing(root: Path) -> None:
    check_flips(root, QUICK)


@pytest.mark.exhaustive
def test_five_hundred_flipped_bits(root: Path) -> None:
    check_flips(root, ALL)


def answers_of_places(root: Path) -> tuple[object, ...]:
    """What is asked of runs that share a table, one by one and all together."""
    with EmbeddedStore(root) as store:
        names = [run.name for run in store.runs()]
        whole = [repr(store.run_data(name)) for name in names]
        rows = store.query("MATCH (m:Metric) RETURN m.run, count(*)", QueryParameters()).rows
        return store.runs(), whole, store.origins_of(names), sorted(map(repr, rows))


@pytest.mark.parametrize("count", [20, pytest.param(ALL, marks=pytest.mark.exhaustive)])
def test_flipped_bits_of_the_table_of_many_places(tmp_path: Path, count: int) -> None:
    data = sample_run("a")
    root = tmp_path / "store"
    with EmbeddedStore(root) as store:
        store.save_runs(replace(data, run=replace(data.run, name=name)) for name in "abc")
    right = answers_of_places(root)
    chosen = random.Random(21)
    tables = sorted(root.glob("shared/*/tables/*"))
    manifests = sorted(root.glob("runs/*/manifest.json"))
    for number in range(count):
        view = view_of(root)
        path = view if number % 2 else manifests[number // 2 % 3]
        path = chosen.choice(tables) if number % 4 == 1 else path
        bit = chosen.randrange(8 * path.stat().st_size)
        flipped(path, bit)
        said = what_is_said(root, right, answers_of_places)
        assert not said or (path != view and path.name in said), (path, bit, said)
        if path != view:  # that was made again
            flipped(path, bit)
    assert answers_of_places(root) == right


def test_the_table_stays_for_a_run_that_is_damaged(tmp_path: Path) -> None:
    """Its manifest may be mended; what nobody can need goes, also if that is damaged itself."""
    data, root = sample_run("a"), tmp_path / "store"
    with EmbeddedStore(root) as store:
        store.save_runs(replace(data, run=replace(data.run, name=name)) for name in "abc")
        right = repr(store.run_data("b"))
    manifest = root / "runs" / "b" / "manifest.json"
    for bit in range(5, 8 * manifest.stat().st_size, 1500):
        flipped(manifest, bit)
    bits = manifest.read_bytes()
    with EmbeddedStore(root) as store:
        store.delete("a")
        store.delete("c")
        store.repair()
    for bit in range(5, 8 * manifest.stat().st_size, 1500):
        flipped(manifest, bit)
    with EmbeddedStore(root) as store:
        assert repr(store.run_data("b")) == right
    manifest.write_bytes(bits)
    with EmbeddedStore(root) as store:
        store.repair(set_aside=True)
        assert list(root.glob("shared/*"))
        shutil.rmtree(root / "damaged")
        flipped(next(root.glob("shared/*/manifest.json")), 80)
        assert store.repair()
        assert not list(root.glob("shared/*"))


@pytest.mark.parametrize("count", [20, pytest.param(ALL, marks=pytest.mark.exhaustive)])
def test_flipped_bits_of_kept_arrays(
    root: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Whatever bit it is, the file is made again from the database."""
    monkeypatch.setattr(outline_files, "_WORTH", 1)

    def ask() -> list[object]:
        with EmbeddedStore(root) as store:
            found = [store.arrays("first", side) for side in Side]
        return [(each.ids, each.successor_ops.tolist(), each.number) for each in found]

    right = ask()
    kept = {path: path.read_bytes() for path in root.glob("runs/*/arrays-*")}
    chosen = random.Random(21)
    assert len(kept) == 2
    for path in sorted(kept) * (count // 2):
        flipped(path, chosen.randrange(8 * path.stat().st_size))
        assert ask() == right
        assert {path: path.read_bytes() for path in kept} == kept


def test_a_bit_that_flips_under_an_open_store_is_told(root: Path) -> None:
    with EmbeddedStore(root) as store:
        assert store.query(BY_HAND, QueryParameters(), "first").rows
        flip(tables_of(root / "runs/first") / "Op.parquet")
        flip(next(root.glob("scratch/*/graph.lbug")))
        for ask in (
            lambda: store.run_data("first"),
            lambda: store.query("MATCH (r:Run) RETURN r.name", QueryParameters()),
            lambda: store.query("MATCH (r:Run) RETURN r.name", QueryParameters(), "first"),
        ):
            with pytest.raises(StoreError, match="the run 'first' is damaged"):
                ask()
        assert store.info().runs == 0
        assert len(store.info().damaged) == 1


def test_the_command_line_says_what_is_damaged_and_sets_it_aside(root: Path, divergraph) -> None:
    flip(tables_of(root / "runs/first") / "Op.parquet")
    for command in (["ops", "first"], ["origins", "first"], ["report", "first", "--csv", "-"]):
        ended = divergraph(*command, "--store", root)
        assert ended.code == 3
        assert "the run 'first' is damaged" in ended.err
        assert ended.out == ""
    assert "the run 'first' is damaged" in divergraph("store", "info", "--store", root).out
    doctor = divergraph("doctor", "--store", root)
    assert doctor.code == 3
    assert "the run 'first' is damaged" in doctor.out
    assert divergraph("store", "repair", "--store", root).code == 3
    aside = divergraph("store", "repair", "--set-aside", "--store", root)
    assert (aside.code, (root / "damaged" / "runs-first").is_dir()) == (0, True)


@pytest.mark.parametrize("text", ["", "{", '{"schema": 1, "checksum": "0"}', None])
def test_a_damaged_store_file_is_made_again(root: Path, divergraph, text: str | None) -> None:
    right = answers(root)
    path = root / "store.json"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    for command in (["runs"], ["store", "info"], ["doctor"], ["store", "repair"]):
        ended = divergraph(*command, "--store", root)
        assert ended.code == 3, command
        assert "store.json" in ended.out + ended.err
    aside = divergraph("store", "repair", "--set-aside", "--store", root)
    assert aside.code == 0, aside
    assert "made again" in aside.out
    assert (root / "damaged" / "store.json").exists() == (text is not None)
    assert answers(root) == right


def test_a_store_of_another_version_is_not_made_again(root: Path, divergraph) -> None:
    (root / "store.json").write_text("")
    (root / "runs" / "first" / "manifest.json").write_text('{"schema": 99, "database": "x"}')
    ended = divergraph("store", "repair", "--set-aside", "--store", root)
    assert ended.code == 3
    assert "schema version 99" in ended.err
    assert (root / "store.json").read_text() == ""


@pytest.mark.slow
def test_a_damaged_database_of_many_runs_is_made_again(root: Path) -> None:
    shutil.copytree(root / "runs" / "first", root / "runs" / "second")
    asked = "MATCH (r:Run) RETURN r.name ORDER BY r.name"
    with EmbeddedStore(root) as store:
        right = store.query(asked, QueryParameters())
    (merged,) = (root / "scratch").glob("view-*/*.lbug")
    flipped(merged, 80_000)
    with EmbeddedStore(root) as store:
        assert store.query(asked, QueryParameters()) == right
