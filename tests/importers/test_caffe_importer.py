"""Caffe nets: text and binary, old and new layers, in-place layers, phases and weights."""

from __future__ import annotations

import random
import struct

import pytest

from graphstore.errors import ImportFormatError, InputError
from graphstore.model import DType, Framework, GraphKind, InputRef, TensorRef
from importers.dumps.arrays.golden_names import GoldenNames
from importers.proto.messages import caffe_pb2 as pb
from importers.registry import read_graph

NET = """
name: "small"  # a comment
layer { name: "data" type: "Input" top: "data"
        input_param { shape: { dim: 2 dim: 3 dim: 9 dim: 9 } } }
layer {
  name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2
                      weight_filler { type: "xavier" } }
}
layer { name: "bn" type: "BatchNorm" bottom: "conv1" top: "conv1" batch_norm_param { eps: 1e-3 } }
layer { name: "relu" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool" type: "Pooling" bottom: "conv1" top: "pool"
        pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc"
        inner_product_param { num_output: 7 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss"
        include { phase: TRAIN } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" exclude { phase: TRAIN } }
"""


@pytest.fixture
def net_of(tmp_path):
    def read(content: str | bytes, name: str = "net.prototxt", **options: str):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_graph(path, options)

    return read


def test_a_net_is_an_original_graph(net_of):
    graph = net_of(NET)
    assert (graph.name, graph.kind, graph.framework) == (
        "small",
        GraphKind.ORIGINAL,
        Framework.CAFFE,
    )
    assert [op.name for op in graph.ops] == ["data", "conv1", "bn", "relu", "pool", "fc", "prob"]
    assert [tensor.name for tensor in graph.inputs] == ["data"]
    assert graph.outputs == (TensorRef("prob", 0),)
    assert graph.warnings == ()
    conv = graph.op_index()["conv1"]
    assert conv.attrs["convolution_param.kernel_size"] == 3
    assert conv.attrs["convolution_param.weight_filler.type"] == "xavier"
    assert conv.attrs["param.lr_mult"] == (1, 2)


def test_shapes_follow_caffes_formulas(net_of):
    shapes = {op.name: op.outputs[0].shape for op in net_of(NET).ops}
    assert shapes == {
        "data": (2, 3, 9, 9),
        "conv1": (2, 4, 5, 5),
        "bn": (2, 4, 5, 5),
        "relu": (2, 4, 5, 5),
        "pool": (2, 4, 3, 3),  # rounded up
        "fc": (2, 7),
        "prob": (2, 7),
    }


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ('type: "Convolution" convolution_param { num_output: 6 kernel_h: 3 kernel_w: 1 pad_h: 1 '
         "pad_w: 0 stride_w: 2 stride_h: 1 }", (2, 6, 8, 5)),
        ('type: "Convolution" convolution_param { num_output: 6 kernel_size: [3, 1] dilation: 2 }',
         (2, 6, 4, 10)),
        ('type: "Deconvolution" convolution_param { num_output: 1 kernel_size: 4 stride: 2 '
         "pad: 1 }",
         (2, 1, 16, 20)),
        ('type: "Pooling" pooling_param { global_pooling: true }', (2, 4, 1, 1)),
        ('type: "Pooling" pooling_param { kernel_size: 3 stride: 2 pad: 1 }', (2, 4, 5, 6)),
        ('type: "Flatten"', (2, 320)),
        ('type: "Reshape" reshape_param { shape { dim: 0 dim: -1 dim: 5 } }', (2, 64, 5)),
        ('type: "Permute" permute_param { order: 0 order: 2 order: 3 order: 1 }', (2, 8, 10, 4)),
        ('type: "Tile" tile_param { tiles: 3 }', (2, 12, 8, 10)),
        ('type: "Reduction" reduction_param { axis: 1 }', (2,)),
        ('type: "InnerProduct" inner_product_param { num_output: 9 axis: 2 }', (2, 4, 9)),
        ('type: "EuclideanLoss"', ()),
        ('type: "SomebodysOwn" own_param { kernel_size: 3 }', None),
        ('type: "Convolution" convolution_param { num_output: 6 kernel_size: 0 }', None),
        ('type: "Convolution" convolution_param { num_output: 6 kernel_size: 3 stride: 0 }', None),
        ('type: "Convolution" convolution_param { num_output: 6 kernel_size: 30 }', None),
        ('type: "Reshape" reshape_param { shape { dim: -1 dim: 7 } }', (None, 7)),
    ],
)  # fmt: skip
def test_the_shape_of_a_layer(net_of, layer, shape):
    text = 'input: "x" input_shape { dim: 2 dim: 4 dim: 8 dim: 10 }'
    graph = net_of(f'{text} layer {{ name: "a" bottom: "x" top: "y" {layer} }}')
    assert graph.ops[0].outputs[0].shape == shape


def test_concat_and_slice(net_of):
    graph = net_of("""
      input: "x" input_dim: 1 input_dim: 6 input_dim: 2 input_dim: 2
      layer { name: "cut" type: "Slice" bottom: "x" top: "a" top: "b" top: "c"
              slice_param { slice_point: 1 slice_point: 3 } }
      layer { name: "halves" type: "Slice" bottom: "x" top: "d" top: "e" }
      layer { name: "joined" type: "Concat" bottom: "a" bottom: "c" bottom: "x" top: "f" }
    """)
    shapes = [tensor.shape for op in graph.ops for tensor in op.outputs]
    assert shapes == [
        *((1, 1, 2, 2), (1, 2, 2, 2), (1, 3, 2, 2)),
        *((1, 3, 2, 2), (1, 3, 2, 2)),
        (1, 10, 2, 2),
    ]
    assert [str(output) for output in graph.outputs] == [
        "cut:1",
        "halves:0",
        "halves:1",
        "joined:0",
    ]


def test_layers_in_place_make_tensors_of_their_own(net_of):
    ops = net_of(NET).op_index()
    names = [ops[name].outputs[0].name for name in ("conv1", "bn", "relu")]
    assert names == ["conv1@conv1", "conv1@bn", "conv1"]
    assert ops["bn"].inputs == (InputRef("conv1@conv1", TensorRef("conv1", 0)),)
    assert ops["relu"].inputs == (InputRef("conv1@bn", TensorRef("bn", 0)),)
    assert ops["pool"].inputs == (InputRef("conv1", TensorRef("relu", 0)),)


def test_golden_files_of_in_place_layers_are_found(net_of):
    graph = net_of(NET.replace('"conv1"', '"block.1/conv"').replace('name: "bn"', 'name: "b.n"'))
    names = GoldenNames(graph)
    found = {
        stem: [(hit.op.name, hit.port) for hit in names.find(f"{stem}.0.1600000000000000")]
        for stem in ("block_1_conv", "b_n", "relu")
    }
    assert found == {
        "block_1_conv": [("block.1/conv", 0)],
        "b_n": [("b.n", 0)],
        "relu": [("relu", 0)],
    }


def test_a_blob_named_unlike_its_layers_is_what_the_last_one_left(net_of):
    graph = net_of("""
      input: "x"
      layer { name: "a" type: "Power" bottom: "x" top: "blob" }
      layer { name: "b" type: "ReLU" bottom: "blob" top: "blob" }
    """)
    assert [hit.op.name for hit in GoldenNames(graph).find("blob.0.1600000000000000")] == ["b"]


def test_an_input_written_in_place(net_of):
    graph = net_of(
        'input: "x" input_shape { dim: 3 } layer { name: "r" type: "OwnReLU" bottom: "x" top: "x" }'
    )
    assert graph.ops[0].outputs[0].shape == (3,)
    assert graph.ops[0].inputs == (InputRef("x@input"),)
    assert graph.ops[0].outputs[0].name == "x"
    assert [tensor.name for tensor in graph.inputs] == ["x"]


@pytest.mark.parametrize(
    ("phase", "layers"),
    [("", ["data", "prob"]), ("TEST", ["data", "prob"]), ("train", ["data", "loss"])],
)
def test_the_phase_chooses_layers(net_of, phase, layers):
    graph = net_of(NET, phase=phase) if phase else net_of(NET)
    assert [op.name for op in graph.ops if op.name in ("data", "loss", "prob")] == layers


def test_a_net_says_its_phase_level_and_stages(net_of):
    text = """
      state { phase: TRAIN level: 2 stage: "fast" }
      layer { name: "a" type: "X" include { phase: TRAIN min_level: 1 stage: "fast" } }
      layer { name: "b" type: "X" include { min_level: 3 } include { stage: "slow" } }
      layer { name: "c" type: "X" exclude { not_stage: "slow" } }
      layer { name: "d" type: "X" exclude { max_level: 1 } }
    """
    graph = net_of(text)
    assert [op.name for op in graph.ops] == ["a", "d"]
    assert graph.attrs["phase"] == "TRAIN"
    assert [op.name for op in net_of(text, stage="slow,other").ops] == ["b", "c", "d"]


OLD = """
name: "old" input: "data" input_dim: 1 input_dim: 1 input_dim: 4 input_dim: 4
layers { name: "ip" type: INNER_PRODUCT bottom: "data" top: "ip"
         blobs_lr: 1 inner_product_param { num_output: 3 } }
layers { bottom: "ip" top: "ip" name: "r" type: RELU }
layers { name: "l" type: SOFTMAX_LOSS bottom: "ip" bottom: "label" top: "l"
         include: { phase: TEST } }
"""


def test_layers_of_old_nets_get_their_present_types(net_of):
    graph = net_of(OLD)
    assert [(op.name, op.type) for op in graph.ops] == [
        ("ip", "InnerProduct"),
        ("r", "ReLU"),
        ("l", "SoftmaxWithLoss"),
    ]
    assert graph.ops[1].outputs[0].shape == (1, 3)
    assert graph.warnings == ("1 bottom is made by no layer: label of l",)


def trained(old: bool = False) -> bytes:
    """A binary net with one weighted layer, its phase as Caffe saves it."""
    values = struct.pack("<6f", *range(6))
    shape = pb.BlobProto(shape=pb.BlobShape(dim=[3, 2])).SerializeToString()
    if old:
        shape = pb.BlobProto(num=1, channels=1, height=3, width=2).SerializeToString()
    blob = shape + b"\x2a" + bytes([len(values)]) + values
    if old:
        layer = pb.V1LayerParameter(
            name="ip", type=pb.V1LayerParameter.INNER_PRODUCT, bottom=["data"], top=["ip"]
        ).SerializeToString()
        layer += b"\x32" + bytes([len(blob)]) + blob
        key = b"\x12"
    else:
        layer = pb.LayerParameter(
            name="ip", type="InnerProduct", bottom=["data"], top=["ip"], phase=pb.TRAIN
        )
        layer.inner_product_param.num_output = 3
        layer = layer.SerializeToString() + b"\x3a" + bytes([len(blob)]) + blob
        key = b"\xa2\x06"
    net = pb.NetParameter(name="trained", input=["data"], input_dim=[4, 2, 1, 1])
    return net.SerializeToString() + key + bytes([len(layer)]) + layer


@pytest.mark.parametrize("old", [False, True])
def test_weights_stay_in_the_file(tmp_path, net_of, old):
    graph = net_of(trained(old), "net.caffemodel")
    (weight,) = graph.constants
    assert weight.tensor.name == "ip/blobs/0"
    assert weight.tensor.shape == ((1, 1, 3, 2) if old else (3, 2))
    assert weight.tensor.dtype is DType.FLOAT32
    assert graph.ops[0].inputs == (InputRef("data"), InputRef("ip/blobs/0"))
    data = (tmp_path / weight.location).read_bytes()
    values = data[weight.offset : weight.offset + weight.nbytes]
    assert struct.unpack("<6f", values) == (0, 1, 2, 3, 4, 5)


def test_a_saved_net_keeps_the_phase_it_was_trained_in(net_of):
    assert net_of(trained(), "net.caffemodel").attrs["phase"] == "TRAIN"


def test_weights_of_another_file(tmp_path, net_of):
    weights = tmp_path / "trained.caffemodel"
    weights.write_bytes(trained())
    text = OLD.replace('name: "r" type: RELU', 'name: "p" type: CONVOLUTION')
    graph = net_of(text, weights=str(weights))
    assert [constant.location for constant in graph.constants] == ["trained.caffemodel"]
    assert "1 layer has no weights in the caffemodel: p" in graph.warnings
    told = net_of(text.replace('"ip"', '"other"'), weights=str(weights)).warnings
    assert "1 layer of the caffemodel is not in the net: ip" in told


def test_options_other_formats_do_not_have(net_of, tmp_path):
    with pytest.raises(InputError, match="neither TRAIN nor TEST"):
        net_of(NET, phase="VALIDATE")
    with pytest.raises(InputError, match="it takes weights, phase, stage"):
        net_of(NET, colour="red")
    with pytest.raises(InputError, match="without the option 'weights'"):
        net_of('graph { op { name: "a" type: "Abs" } }', weights="x")
    with pytest.raises(ImportFormatError, match="no such file"):
        net_of(NET, weights=str(tmp_path / "none.caffemodel"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('layer { name: "a" type: "X"\n  bottom: { } }', "a block where a text belongs"),
        ('layer { name: "a" type: "X" bottom: x }', "x where a text belongs"),
        ('layer { name: "a" type: "X" include { phase: VAL } }', "neither TRAIN nor TEST"),
        ('layer { name: "a" type: "X" include: 3 }', "3 where a block belongs"),
        ('layer { name: "a" type: "X" top: "y" }\nlayer { name: "b', "no end quote"),
        ('layer { name: "a" type: "X" top: "y"', "ends inside"),
        ('layer { name: "a" type: "X" fork_param { sides: 2O } }', "fork_param.sides has '2O'"),
    ],
)
def test_wrong_text_is_told_with_its_line(net_of, text, what):
    with pytest.raises(ImportFormatError, match=what) as caught:
        net_of(text)
    assert caught.value.line is not None


def test_a_letter_in_a_number_is_told_where_it_stands(net_of):
    text = 'layer { name: "a" type: "Pooling" pooling_param {\n pool: MAX\n stride: [2, O] } }'
    with pytest.raises(ImportFormatError, match="stride has 'O', which is no number") as caught:
        net_of(text)
    assert (caught.value.line, caught.value.column) == (3, 2)


@pytest.mark.parametrize("written", ["-3", "4.", "08", "1e4", "99999999999999999999", "true", "0x"])
def test_what_caffe_takes_for_no_whole_number_is_told_where_it_stands(net_of, written):
    text = 'layer { name: "a" type: "Convolution" convolution_param {\n num_output: %s } }'
    with pytest.raises(ImportFormatError, match="num_output has") as caught:
        net_of(text % written)
    assert caught.value.line == 2
    assert net_of(text % "0x4").ops


def test_a_number_too_large_for_a_float_is_none(net_of):
    text = 'layer { name: "a" type: "X" param {\n lr_mult: %s } }'
    with pytest.raises(ImportFormatError, match="lr_mult has '1e400', which is no number"):
        net_of(text % "1e400")
    assert net_of(text % "inf").ops


def failure_of(path) -> ImportFormatError | None:
    try:
        read_graph(path)
    except ImportFormatError as error:
        return error
    return None


def test_any_damaged_byte_ends_in_a_graph_or_an_error(tmp_path):
    path = tmp_path / "net.caffemodel"
    rng = random.Random(5)
    for content in (NET.encode(), trained(), trained(old=True)):
        for _ in range(150):
            damaged = bytearray(content)
            for _ in range(rng.randint(1, 3)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            path.write_bytes(damaged[: rng.randint(1, len(damaged))])
            failure = failure_of(path)
            assert failure is None or "\n" not in str(failure)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "layers", "first", "last", "constants"),
    [
        ("ResNet-50-deploy.prototxt", 228, "conv1", "prob", 0),
        ("bvlc_googlenet_deploy.prototxt", 143, "data", "prob", 0),
        ("lenet.prototxt", 9, "data", "prob", 0),
        ("mobilenet_v2_deploy.prototxt", 208, "conv1", "prob", 0),
        ("mtcnn_det1.prototxt", 10, "conv1", "prob1", 13),
        ("mtcnn_det1.caffemodel", 18, "data12", "accuracy1", 13),
        ("mtcnn_det2.prototxt", 13, "conv1", "prob1", 16),
        ("mtcnn_det2.caffemodel", 22, "data24", "accuracy1", 18),
    ],
)
def test_the_real_nets(shared_data, file, layers, first, last, constants):
    graph = read_graph(shared_data / "caffe" / file)
    assert (len(graph.ops), graph.ops[0].name, graph.ops[-1].name) == (layers, first, last)
    assert len(graph.constants) == constants
    assert all("not in the net" in warning for warning in graph.warnings)


@pytest.mark.shared
@pytest.mark.parametrize(("net", "unused"), [("mtcnn_det1", []), ("mtcnn_det2", ["conv5-3"])])
def test_real_weights_beside_a_real_net(shared_data, net, unused):
    folder = shared_data / "caffe"
    weights = {"weights": str(folder / f"{net}.caffemodel")}
    graph = read_graph(folder / f"{net}.prototxt", weights)
    assert [told.rpartition(": ")[2] for told in graph.warnings] == unused
    for constant in graph.constants:
        count = 1
        for dim in constant.tensor.shape or ():
            count *= dim or 0
        assert constant.nbytes == 4 * count
    conv = graph.op_index()["conv1"]
    sizes = {constant.tensor.name: constant.tensor.shape for constant in graph.constants}
    assert sizes[conv.inputs[1].tensor][0] == conv.attrs["convolution_param.num_output"]


@pytest.mark.shared
def test_a_device_graph_holds_every_layer_of_its_net(shared_data):
    from divergraph.graphs.lineage.linking import link_graphs

    net = read_graph(shared_data / "caffe" / "ResNet-50-deploy.prototxt")
    device = read_graph(shared_data / "ge_proto" / "ge_proto_00000062_Build.txt")
    linked = {link.original for link in link_graphs(net, device).links}
    assert linked == {op.id for op in net.ops}
