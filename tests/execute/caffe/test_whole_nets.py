"""Caffe nets from capture to the cause of a fault, and the public nets against OpenCV."""

from __future__ import annotations

import numpy as np
import pytest

import divergraph as dg
from divergraph.execute.installed import open_executor
from graphstore.errors import ExecutionError, InputError
from importers.registry import read_graph
from tests.execute.caffe.conftest import caffemodel, near, whole_net

NET = """
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "up" type: "Deconvolution" bottom: "pool" top: "up"
  convolution_param { num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 4 } }
layer { name: "fc" type: "InnerProduct" bottom: "up" top: "fc"
  inner_product_param { num_output: 10 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""


@pytest.fixture
def trained(rng):
    return {
        "conv": [rng(8, 3, 3, 3), rng(8)],
        "bn": [rng(8), np.abs(rng(8, seed=1)) + 0.5, np.array([2.0])],
        "scale": [rng(8, seed=2), rng(8, seed=3)],
        "up": [rng(8, 1, 4, 4), rng(4)],
        "fc": [rng(10, 4 * 12 * 12), rng(10)],
    }


@pytest.fixture
def side(tmp_path, rng):
    """Writes a net with its weights and captures it; the net and its dump."""
    np.save(tmp_path / "x.npy", rng(2, 3, 12, 12))

    def made(name, weights, net=NET, apart=False):
        model = tmp_path / f"{name}.prototxt"
        model.write_text(whole_net(net, {"data": rng(2, 3, 12, 12)}))
        place = tmp_path / ("elsewhere" if apart else "") / f"{name}.caffemodel"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(caffemodel(weights))
        dump = tmp_path / f"{name}_dump"
        dg.capture(model, dump, tmp_path / "x.npy", weights=place if apart else None)
        return model, dump

    return made


@pytest.mark.parametrize(
    ("layer", "place", "channel", "by", "said"),
    [
        ("conv", 0, 3, 1.05, "weights of channel 3 1.05 times"),
        ("scale", 1, 2, 0.0, "channel 2"),
        ("up", 0, 1, 1.1, ""),
        ("fc", 1, 4, 0.0, "fc/blobs/1[4]"),
    ],
)
def test_the_layer_with_another_weight_is_the_origin(
    side, trained, layer, place, channel, by, said
):
    golden = side("golden", trained)
    faulty = {name: [value.copy() for value in values] for name, values in trained.items()}
    faulty[layer][place][channel] *= by
    run = dg.compare(*golden, *side("device", faulty))
    assert [origin.op for origin in run.data.origins] == [layer]
    assert run.data.run.method == "root-cause"
    assert said in " ".join(each.sentence for each in run.data.findings if each.op == layer)


def test_a_device_that_sums_in_another_order_is_clean(side, trained, nets, rng, tmp_path):
    model, dump = side("golden", trained)
    device = tmp_path / "opencv"
    device.mkdir()
    graph = read_graph(model)
    for op in graph.ops:
        value = nets.opencv(NET, {"data": rng(2, 3, 12, 12)}, trained, op.name)
        np.save(device / f"{op.name}.0.1700000000000000.npy", value)
    run = dg.compare(model, dump, model, device)
    assert (run.verdict, run.data.origins) == ("clean", ())


def test_weights_in_another_folder_serve_the_kept_run_too(side, trained, tmp_path):
    golden = side("golden", trained, apart=True)
    trained["conv"][0] = trained["conv"][0] * np.float32(1.01)
    device = side("device", trained)
    weights = tmp_path / "elsewhere" / "golden.caffemodel"
    with dg.open_store(tmp_path / "store") as store:
        run = dg.compare(*golden, *device, store=store, name="r", weights=weights)
        assert [each.origin.op for each in run.origins] == ["conv"]
        assert run.blame().unexplained < 0.01


def test_a_net_without_weights_says_where_they_are_looked_for(side, trained, tmp_path):
    model, _ = side("golden", trained, apart=True)
    with pytest.raises(ExecutionError) as failure:
        dg.capture(model, tmp_path / "new", tmp_path / "x.npy")
    assert "--weights" in failure.value.hint
    with pytest.raises(InputError):
        dg.capture(model, tmp_path / "new", tmp_path / "x.npy", weights=tmp_path / "none")


def test_a_layer_nobody_knows_is_named_and_the_rest_is_captured(side, trained):
    net = NET + 'layer { name: "own" type: "Own" bottom: "conv" top: "own" }'
    net += 'layer { name: "more" type: "TanH" bottom: "own" top: "more" }'
    model, dump = side("golden", trained, net)
    graph = read_graph(model)
    executor = open_executor(model, graph)
    told = {each.tensor: each.reason for each in executor.unavailable}
    executor.close()
    assert told == dict.fromkeys(("own", "more"), "no translation of ops of type Own")
    assert len(list(dump.glob("*.npy"))) == 9


PUBLIC = ("mtcnn_det1", "mtcnn_det2")


@pytest.mark.shared
@pytest.mark.parametrize("name", PUBLIC)
def test_public_nets_as_opencv_runs_them(shared_data, rng, name):
    cv2 = pytest.importorskip("cv2")
    model = shared_data / "caffe" / f"{name}.prototxt"
    graph = read_graph(model)
    executor = open_executor(model, graph)
    (fed,) = executor.inputs
    x = rng(*fed.shape)
    ours = dict(executor.run({fed.name: x}))
    executor.close()
    net = cv2.dnn.readNetFromCaffe(str(model), str(model.with_suffix(".caffemodel")))
    net.enableFusion(False)
    net.setInput(x)
    for op in graph.ops:
        near(ours[op.outputs[0].name], net.forwardAndRetrieve([op.name])[0][0])
