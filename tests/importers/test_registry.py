"""Formats are told by content, and what is no graph gets one clear error."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import subprocess
import sys
import zipfile

import pytest
from onnx import TensorProto, helper

from graphstore.errors import ImportFormatError
from importers import registry
from importers.proto.messages import tf_graph_pb2 as pb
from importers.registry import read_graph

GE_TEXT = b'graph {\n  name: "g"\n  op {\n    name: "a"\n    type: "Abs"\n  }\n}\n'


def tf_graph() -> pb.GraphDef:
    return pb.GraphDef(
        node=[pb.NodeDef(name="x", op="Placeholder"), pb.NodeDef(name="y", op="Abs")]
    )


def onnx_model() -> bytes:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    node = helper.make_node("Abs", ["x"], ["y"], name="abs")
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    return helper.make_model(graph).SerializeToString()


def meta_graph() -> pb.MetaGraphDef:
    meta = pb.MetaGraphDef(graph_def=tf_graph())
    meta.meta_info_def.tensorflow_version = "1.15.0"
    return meta


def zip_of(name: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), b"content")  # of no date: test names are the same
    return written.getvalue()


SAMPLES = {
    "caffe": b'name: "net"\nlayer { name: "a" type: "ReLU" }',
    "onnx": onnx_model(),
    "ge_proto": GE_TEXT,
    "graphdef": tf_graph().SerializeToString(),
    "meta": meta_graph().SerializeToString(),
    "saved_model": pb.SavedModel(
        saved_model_schema_version=1, meta_graphs=[meta_graph()]
    ).SerializeToString(),
}


@pytest.mark.parametrize("ending", [".onnx", ".pb", ".meta", ".txt", ".pbtxt", ""])
@pytest.mark.parametrize("kind", SAMPLES)
def test_the_content_tells_the_format_whatever_the_name(tmp_path, kind, ending):
    path = tmp_path / f"model{ending}"
    path.write_bytes(SAMPLES[kind])
    graph = read_graph(str(path))
    assert graph.format == kind
    assert graph.source == str(path)
    assert len(graph.sha256) == 64


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the file is empty"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "a PNG picture"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "a JPEG picture"),
        (b"PK\x03\x04\x14\x00", "a zip archive"),
        (b"\x7fELF\x02\x01\x01\x00", "an ELF program"),
        (gzip.compress(GE_TEXT, mtime=0), "a gzip archive"),
        (b"IMOD\x00\x01\x00\x00", "the file ends inside its header"),
        (b'[{"graph_fusion": {}, "ub_fusion": {}}]', "the compiler's list of fusion passes"),
        (b"\x93NUMPY\x01\x00v\x00", "a numpy array"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        (b'{"graph": []}', "a JSON text"),
        (b"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>", "an HTML page"),
        (b"<?xml version='1.0'?><a/>", "an XML page"),
        (zip_of("archive/data.pkl"), "a PyTorch file"),
        (zip_of("model/.format_version"), "a PyTorch file"),
        (zip_of("metadata.json"), "a Keras model"),
        (zip_of("arr_0.npy"), "an .npz archive"),
        (zip_of("whatever"), "a zip archive"),
        (pickle.dumps({"a": 1}), "a Python pickle"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M", "a PyTorch file"),
        (b"\x89HDF\r\n\x1a\n\x00\x00", "an HDF5 file"),
        (b'\x40\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[1]}}', "a file of safetensors"),
        (b"GGUF\x03\x00\x00\x00", "a GGUF file"),
        (b"\x18\x00\x00\x00ORTM\x00", "an ONNX Runtime model"),
        (b'model_checkpoint_path: "model.ckpt-1"\n', "checkpoint"),
        (b'net: "lenet.prototxt"\nbase_lr: 0.01\n', "a Caffe solver"),
        (b'{"NPU": {"node": {"Add": {"matched_node_link": []}}}, "Bench": {}}', "msprobe (.vis"),
        (b"just some words\n", "not a graph in a known format"),
        (b"\x00" * 100, "not a graph in a known format"),
        (b'\x40\0\0\0\0\0\0\0{"version": "2.0", "dump_time": 1}', "not a graph in a known"),
        (b"\t<\xb3\xb7\xe1\x17*\xc3!\n\x12model/dense_1", "not a graph in a known format"),
        (bytes(range(256)), "not a graph in a known format"),
    ],
)
def test_what_is_no_graph_is_named(tmp_path, content, what):
    path = tmp_path / "model.pb"
    path.write_bytes(content)
    with pytest.raises(ImportFormatError) as caught:
        read_graph(path)
    assert what in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_a_missing_file(tmp_path):
    with pytest.raises(ImportFormatError, match="no such file"):
        read_graph(tmp_path / "none.onnx")
    with pytest.raises(ImportFormatError, match="cannot be read"):
        read_graph(tmp_path / ("x" * 400))
    with pytest.raises(ImportFormatError, match="not a usable path"):
        read_graph("a\0b")


def test_a_file_that_may_not_be_read(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_model())
    path.chmod(0)
    registry.installed()
    rights = os.geteuid()
    if rights == 0:  # root may read everything: be nobody for a moment
        os.seteuid(65534)
    try:
        with pytest.raises(ImportFormatError, match="permission denied"):
            read_graph(path)
    finally:
        os.seteuid(rights)


def test_folders(tmp_path):
    with pytest.raises(ImportFormatError, match="the folder is empty"):
        read_graph(tmp_path)
    (tmp_path / "a.onnx").write_bytes(onnx_model())
    with pytest.raises(ImportFormatError, match="give one file, such as a"):
        read_graph(tmp_path)


def test_a_pipe_is_no_graph(tmp_path):
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(ImportFormatError, match="neither a file nor a folder"):
        read_graph(tmp_path / "pipe.onnx")


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Install a distribution with one importer, as a third party would."""

    def install(target: str, code: str = "") -> None:
        info = tmp_path / "thirdparty-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[divergraph.importers]\naaa = {target}\n")
        (tmp_path / "thirdparty_graphs.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        registry.installed.cache_clear()

    yield install
    registry.installed.cache_clear()
    sys.modules.pop("thirdparty_graphs", None)


GOOD = """
from importers.contract import Confidence
class Toy:
    name = reads = "toy"
    def detect(self, path, head):
        return Confidence.SURE if head.startswith(b"TOY!") else Confidence.NO
    def read(self, path):
        return "a toy graph"
"""


def test_a_third_party_importer_is_used_like_our_own(plugin, tmp_path):
    plugin("thirdparty_graphs:Toy", GOOD)
    path = tmp_path / "x.toy"
    path.write_bytes(b"TOY!")
    assert read_graph(path) == "a toy graph"
    assert "toy" in {importer.name for importer in registry.installed()}


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("not_there:Importer", ""),
        ("thirdparty_graphs:Missing", ""),
        ("thirdparty_graphs:Toy", "raise SystemError('bad day')"),
        ("thirdparty_graphs:Toy", "class Toy: pass"),
        ("thirdparty_graphs:Toy", GOOD.replace("return Confidence.SURE", "return 1 / 0 #")),
    ],
)
def test_a_broken_importer_stops_nobody_else(plugin, tmp_path, caplog, target, code):
    plugin(target, code)
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_model())
    assert read_graph(path).format == "onnx"
    assert any("importer" in record.message for record in caplog.records)


def test_importing_the_package_loads_no_framework():
    code = "import sys, importers.registry as r; r.installed(); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "importers.onnx_model.importer" in loaded
    assert not loaded & {"onnx", "google.protobuf", "tensorflow", "onnxruntime"}
