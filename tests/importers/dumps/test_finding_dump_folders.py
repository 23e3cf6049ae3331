"""The folder of a graph's dump files in a dump tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphstore.errors import InputError
from importers.dumps.folder import dump_leaves, find_dump_folder, model_names

GRAPH = "ge_default_20220926160231_61"
FILE = "Add.a.1.1.1664180560000000"


def dump(root: Path, *levels: str, file: str = FILE) -> Path:
    folder = root.joinpath(*levels)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(b"x")
    return folder


def test_every_level_of_the_tree_leads_to_the_files(tmp_path):
    folder = dump(tmp_path, "20220926160240", "0", GRAPH, "61", "0")
    for level in (folder, *list(folder.parents)[:5]):
        assert find_dump_folder(level, GRAPH).path == folder


def test_the_folder_around_the_dump_path_will_do(tmp_path):
    folder = dump(tmp_path, "npu", "dump", "20220926160240", "0", GRAPH, "61", "0")
    assert find_dump_folder(tmp_path, GRAPH).path == folder


def test_the_model_folder_decides(tmp_path):
    right = dump(tmp_path, "20220926160240", "0", GRAPH, "61", "0")
    other = dump(tmp_path, "20220926160240", "0", "ge_default_20220926160231_11", "11", "0")
    found = find_dump_folder(tmp_path, GRAPH)
    assert (found.path, found.others) == (right, (other,))
    assert found.reason == f"model folder {GRAPH} has the graph's name"


def test_the_name_may_carry_an_instance_number(tmp_path):
    right = dump(tmp_path, "20220926160240", "0", "resnet_0", "1", "0")
    dump(tmp_path, "20220926160240", "0", "vgg_0", "1", "0")
    assert find_dump_folder(tmp_path, "resnet").path == right
    assert "but for _0" in find_dump_folder(tmp_path, "resnet").reason


def test_else_the_trailing_number_decides_and_it_is_said(tmp_path):
    right = dump(tmp_path, "20220926160240", "0", "ge_default_20230101000000_61", "61", "0")
    dump(tmp_path, "20220926160240", "0", "ge_default_20230101000000_11", "11", "0")
    found = find_dump_folder(tmp_path, GRAPH)
    assert found.path == right
    assert "differs from the graph's name in its time only" in found.reason
    assert find_dump_folder(tmp_path, "online_61").path == right
    assert "only the trailing number" in find_dump_folder(tmp_path, "online_61").reason


def test_newest_time_lowest_device_first_step_with_files(tmp_path):
    dump(tmp_path, "20220926160240", "0", GRAPH, "61", "0")
    for device, step in (("1", "0"), ("10", "0"), ("0", "2"), ("0", "10")):
        dump(tmp_path, "20220927000000", device, GRAPH, "61", step)
    (tmp_path / "20220927000000" / "0" / GRAPH / "61" / "1").mkdir()
    found = find_dump_folder(tmp_path, GRAPH)
    assert found.path == tmp_path / "20220927000000" / "0" / GRAPH / "61" / "2"
    assert "time 20220927000000 is the newest of 2" in found.reason
    assert "device 0 is the lowest of 3" in found.reason
    assert "step 2 is the first of 2 with files" in found.reason
    assert len(found.others) == 4


def test_missing_levels_are_fine(tmp_path):
    without_step = dump(tmp_path / "a", "20220926160240", "0", GRAPH, "61")
    assert find_dump_folder(tmp_path / "a", GRAPH).path == without_step
    without_model = dump(tmp_path / "b", "20220926160240", "0")
    assert find_dump_folder(tmp_path / "b", GRAPH).path == without_model
    flat = dump(tmp_path, "c")
    assert find_dump_folder(flat, GRAPH).reason == "the folder itself holds dump files"


def test_a_number_may_be_the_name_of_a_model(tmp_path):
    folder = dump(tmp_path, "20220926160240", "0", "7", "1", "0")
    assert find_dump_folder(tmp_path, "7").path == folder


def test_golden_files_may_lie_in_a_folder_of_their_own(tmp_path):
    folder = dump(tmp_path, "onnx", file="relu.0.1664180560000000.npy")
    assert find_dump_folder(tmp_path, "net").path == folder


def test_an_input_array_beside_the_dumps_is_not_taken_for_one(tmp_path):
    folder = dump(tmp_path, "20220926160240", "0", GRAPH, "61", "0")
    (tmp_path / "feed_input.npy").write_bytes(b"x")
    assert find_dump_folder(tmp_path, GRAPH).path == folder
    plain = dump(tmp_path, "tensors", file="relu.npy")
    assert find_dump_folder(plain, GRAPH).path == plain


def test_no_dump_of_this_graph_names_what_is_there(tmp_path):
    dump(tmp_path, "20220926160240", "0", "resnet_0", "1", "0")
    dump(tmp_path, "20220926160240", "0", "vgg", "1", "0")
    with pytest.raises(InputError, match=r"no dump of graph 'lenet_0'.*resnet_0, vgg"):
        find_dump_folder(tmp_path, "lenet_0")
    assert model_names(tmp_path) == ["resnet_0", "vgg"]


def test_below_the_model_level_its_name_is_read_from_above(tmp_path):
    folder = dump(tmp_path, "20220926160240", "0", GRAPH, "61", "0")
    for level in (folder, *list(folder.parents)[:3]):
        assert model_names(level) == [GRAPH]


@pytest.mark.parametrize("content", [(), ("notes.txt",), ("mapping.csv", "graph.txt")])
def test_a_folder_without_dump_files_is_told(tmp_path, content):
    for name in content:
        (tmp_path / name).write_text("nothing")
    with pytest.raises(InputError, match="no dump files"):
        find_dump_folder(tmp_path, GRAPH)
    assert model_names(tmp_path) == []


def test_a_missing_folder_or_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(InputError, match="dump folder cannot be read"):
            find_dump_folder(path, GRAPH)


def test_links_that_lead_back_do_not_trap_it(tmp_path):
    folder = dump(tmp_path, "20220926160240", "0", GRAPH, "61", "0")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "20220926160240" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert find_dump_folder(tmp_path, GRAPH).path == folder


def test_the_only_process_of_a_step_is_rank_0_whatever_its_id(tmp_path):
    dump(tmp_path, "step0", "proc6263", file="dump.json")
    dump(tmp_path, "step1", "proc17", file="dump.json")
    dump(tmp_path, "step1", "proc18", file="dump.json")
    assert [leaf.device for leaf in dump_leaves(tmp_path)] == ["0", "17", "18"]


def test_event_logs_of_tfdbg_2_are_named(tmp_path):
    dump(tmp_path, file="tfdbg_events.1795779167.host.metadata")
    with pytest.raises(InputError, match="tfdbg v2, which are not read: divergraph capture"):
        find_dump_folder(tmp_path, None)
