"""What ``import`` hands on to the reader of a format."""

from __future__ import annotations

NET = """
layer { name: "a" type: "InnerProduct" bottom: "x" top: "y" include { phase: TEST } }
layer { name: "b" type: "ReLU" bottom: "x" top: "y" include { phase: TRAIN } }
layer { name: "c" type: "ReLU" bottom: "x" top: "z" include { stage: "deploy" } }
"""


def test_options_choose_what_is_read(divergraph, tmp_path):
    net, store = tmp_path / "net.prototxt", tmp_path / "store"
    net.write_text(NET)

    def names(*options: str) -> list[str]:
        ended = divergraph("import", net, "--name", "n", "--replace", "--store", store, *options)
        assert ended.code == 0, ended.err
        listed = divergraph("ops", "n", "--store", store, "--json").json["ops"]
        return [op["name"] for op in listed]

    divergraph("import", net, "--name", "n", "--store", store)
    assert names() == ["a"]
    assert names("--phase", "train") == ["b"]
    assert names("--phase", "TRAIN", "-O", "stage=deploy") == ["b", "c"]


def test_options_that_cannot_be_used_are_one_line(divergraph, tmp_path):
    net, store = tmp_path / "net.prototxt", tmp_path / "store"
    net.write_text(NET)
    for options, what in (
        (("-O", "colour=red"), "without the option 'colour'"),
        (("-O", "colour"), "NAME=VALUE"),
        (("--phase", "never"), "never"),
        (("--weights", tmp_path / "none.caffemodel"), "no such file"),
    ):
        ended = divergraph("import", net, "--store", store, *options)
        assert ended.code == 2
        assert what in ended.err
        assert "Traceback" not in ended.err
