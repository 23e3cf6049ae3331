"""Which graph of a folder of GE dumps is taken, and by which rule."""

from __future__ import annotations

import pytest

from graphstore.errors import ImportFormatError
from importers.ge_proto.importer import candidates, choose_graph
from importers.registry import read_graph


@pytest.fixture
def dump(tmp_path):
    def write(file: str, graph: str = "g", types: tuple[str, ...] = ("Abs",)) -> None:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        ops = "".join(
            f'  op {{\n    name: "n{i}"\n    type: "{t}"\n  }}\n' for i, t in enumerate(types)
        )
        path.write_text(f'graph {{\n  name: "{graph}"\n{ops}}}\n', encoding="utf-8")

    return write


def test_a_single_graph_is_taken(dump, tmp_path):
    dump("ge_proto_00003_AfterInfershape.txt")
    choice = choose_graph(tmp_path, ())
    assert choice.path.name == "ge_proto_00003_AfterInfershape.txt"
    assert "only graph" in choice.reason
    assert choice.others == ()


@pytest.mark.parametrize(
    "build",
    [
        "ge_proto_00292_Build.txt",
        "ge_proto_00000343_graph_61_Build.txt",
        "ge_proto_00000343_aclop_graph_61_Build.txt",
        "pid_12_deviceid_0/ge_proto_00000001_graph_1_Build.txt",
        "extra-info/graph/370_0/ge_proto_00000001_Build.txt",
    ],
)
def test_the_build_phase_is_what_ran(dump, tmp_path, build):
    dump("ge_proto_00000400_PreRunAfterOptimizeGraphBeforeBuild.txt", types=("Abs",) * 9)
    dump("ge_proto_00000401_graph_1_PreRunAfterBuild.txt", types=("Abs",) * 9)
    dump("ge_proto_00000402_graph_1_ExecuteGraphAfterSplit.txt", types=("Abs",) * 9)
    dump(build)
    choice = choose_graph(tmp_path, ())
    assert choice.path == tmp_path / build
    assert "phase Build" in choice.reason
    assert len(choice.others) == 3


def test_without_a_build_graph_the_latest_phase_is_taken(dump, tmp_path):
    dump("ge_proto_00000009_PreRunBegin.txt")
    dump("ge_proto_00000002_PreRunAfterOptimizeGraphBeforeBuild.txt")
    choice = choose_graph(tmp_path, ())
    assert choice.path.name == "ge_proto_00000002_PreRunAfterOptimizeGraphBeforeBuild.txt"
    assert "no Build graph" in choice.reason


def test_only_unknown_phases(dump, tmp_path):
    dump("ge_proto_00046_afterUBMatch.txt")
    dump("ge_proto_00047_AfterBufferFusion.txt")
    choice = choose_graph(tmp_path, ())
    assert choice.path.name == "ge_proto_00047_AfterBufferFusion.txt"
    assert "none of them is a Build graph" in choice.reason


@pytest.mark.parametrize(
    "folder",
    ["ge_default_20230101_2", "ge_default_20230101_2_0", "ge_default_20991231_2"],
    ids=["same", "with _0", "same number of another run"],
)
def test_the_dump_names_its_graph(dump, tmp_path, folder):
    dump("ge_proto_00000001_graph_1_Build.txt", "ge_default_20230101_1", ("Abs",) * 9)
    dump("ge_proto_00000002_graph_2_Build.txt", "ge_default_20230101_2")
    dump("ge_proto_00000003_graph_12_Build.txt", "ge_default_20230101_12", ("GetNext",) * 9)
    choice = choose_graph(tmp_path, ("other", folder))
    assert choice.path.name == "ge_proto_00000002_graph_2_Build.txt"
    assert "named like the dump" in choice.reason


def test_the_same_name_beats_the_same_number(dump, tmp_path):
    dump("ge_proto_00000001_Build.txt", "ge_default_1_5")
    dump("ge_proto_00000002_Build.txt", "ge_default_2_5")
    assert choose_graph(tmp_path, ("ge_default_1_5",)).path.name == "ge_proto_00000001_Build.txt"


@pytest.mark.parametrize("op", ["IteratorV2", "IteratorGetNext", "GetNext", "DynamicGetNextV2"])
def test_the_graph_that_reads_data_is_the_training_step(dump, tmp_path, op):
    dump("ge_proto_00000001_Build.txt", "init", ("Variable",) * 9)
    dump("ge_proto_00000002_Build.txt", "train", (op, "Abs"))
    choice = choose_graph(tmp_path, ())
    assert choice.path.name == "ge_proto_00000002_Build.txt"
    assert "reads data" in choice.reason


def test_then_the_largest_then_the_newest(dump, tmp_path):
    dump("ge_proto_00000001_Build.txt", "a", ("Abs",) * 3)
    dump("ge_proto_00000002_Build.txt", "b", ("Abs",) * 3)
    dump("ge_proto_00000003_Build.txt", "c", ("Abs",))
    choice = choose_graph(tmp_path, ("unrelated",))
    assert choice.path.name == "ge_proto_00000002_Build.txt"
    assert "newest" in choice.reason
    dump("ge_proto_00000003_Build.txt", "c", ("Abs",) * 4)
    assert "most ops" in choose_graph(tmp_path, ()).reason


def test_a_broken_graph_does_not_hide_the_others(dump, tmp_path):
    (tmp_path / "ge_proto_00000009_Build.txt").write_bytes(b"\x00\x01")
    (tmp_path / "ge_proto_00000008_Build.txt").write_bytes(b"")
    dump("ge_proto_00000001_Build.txt", "wanted")
    assert choose_graph(tmp_path, ("wanted",)).path.name == "ge_proto_00000001_Build.txt"
    assert choose_graph(tmp_path, ()).path.name == "ge_proto_00000001_Build.txt"


def test_a_folder_can_be_read_and_says_what_was_taken(dump, tmp_path):
    dump("ge_proto_00000001_PreRunBegin.txt", "early")
    dump("ge_proto_00000002_Build.txt", "late")
    graph = read_graph(tmp_path)
    assert graph.name == "late"
    assert "ge_proto_00000002_Build.txt of 2 graphs" in graph.warnings[0]


def test_other_files_are_no_candidates(dump, tmp_path):
    dump("ge_onnx_00000001_Build.txt")
    dump("notes.txt")
    dump("ge_proto_Build.txt")
    (tmp_path / "ge_proto_00000001_Build.txt").mkdir()
    with pytest.raises(ImportFormatError, match="no ge_proto") as caught:
        choose_graph(tmp_path, ())
    assert "DUMP_GE_GRAPH" in caught.value.hint


@pytest.mark.shared
def test_the_real_folder(shared_data):
    choice = choose_graph(shared_data / "ge_proto", ("ge_default_20230713074125_11",))
    assert choice.path.name == "ge_proto_00000001_Build.txt"
    by_default = choose_graph(shared_data / "ge_proto", ())
    assert by_default.path.name == "ge_proto_00000062_Build.txt"
    assert "most ops" in by_default.reason


def test_links_to_folders_are_not_followed(tmp_path):
    """They may lead anywhere: to the whole disk, or back up."""
    outside, given = tmp_path / "outside", tmp_path / "given"
    outside.mkdir()
    given.mkdir()
    (outside / "ge_proto_00001_graph_1_Build.txt").write_text('graph { name: "g" }')
    (given / "link").symlink_to(outside)
    (given / "up").symlink_to(tmp_path)
    assert candidates(given) == ()
