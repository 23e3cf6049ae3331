"""Layers that choose boxes, against OpenCV or the definition in plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.execute.caffe.conftest import near


def _detection_inputs(seed, images, places, classes, shared):
    draws = np.random.default_rng(seed)
    corners = draws.uniform(0, 0.6, (places, 2))
    prior = np.concatenate([corners, corners + draws.uniform(0.1, 0.4, (places, 2))], 1)
    variances = np.tile([0.1, 0.1, 0.2, 0.2], (places, 1))
    moves = draws.normal(size=(images, places * 4 * (1 if shared else classes)))
    chances = draws.dirichlet(np.ones(classes), (images, places)).reshape(images, -1)
    both = np.stack([prior.ravel(), variances.ravel()])[None]
    return [each.astype(np.float32) for each in (moves, chances, both)]


@given(
    st.integers(0, 1000),
    st.sampled_from([1, 3]),
    st.sampled_from([1, 7, 40]),
    st.sampled_from(["CENTER_SIZE", "CORNER"]),
    st.booleans(),
    st.sampled_from([0.05, 0.3, 0.9]),
    st.sampled_from([-1, 5, 100]),
    st.sampled_from([3, 100]),
)
@settings(deadline=None, max_examples=15)
def test_detections(nets, seed, images, places, code, shared, least, top, keep):
    inputs = _detection_inputs(seed, images, places, 4, shared)
    params = (
        f"num_classes: 4 share_location: {str(shared).lower()} background_label_id: 0 "
        f"nms_param {{ nms_threshold: 0.4 top_k: {top} }} code_type: {code} keep_top_k: {keep} "
        f"confidence_threshold: {least}"
    )
    said = f"detection_output_param {{ {params} }}"
    ours = nets.one("DetectionOutput", said, *inputs)
    if (ours[..., 1] == -1).all():
        assert ours.shape == (1, 1, images, 7)
        assert np.array_equal(ours[0, 0, :, 0], np.arange(images))
        return
    text = f'layer {{ name: "y" type: "DetectionOutput" top: "y" {said} '
    text += "".join(f'bottom: "x{at}" ' for at in range(3)) + "}"
    theirs = nets.opencv(text, {f"x{at}": value for at, value in enumerate(inputs)})
    theirs = theirs[:, :, theirs[0, 0, :, 2] > 0]  # filled up with zeros
    near(_by_class(ours), _by_class(theirs))
    assert np.array_equal(ours, _by_class(ours))


def _by_class(rows):
    """Image by image, class by class, the best first, as Caffe lists them; OpenCV's are not."""
    order = np.lexsort((-rows[0, 0, :, 2], rows[0, 0, :, 1], rows[0, 0, :, 0]))
    return rows[:, :, order]


def test_all_boxes_are_kept_and_variances_may_be_in_the_moves(nets):
    """OpenCV 4.14 writes beyond its memory without a ``keep_top_k``."""
    moves, chances, prior = _detection_inputs(5, 1, 8, 3, True)
    said = "num_classes: 3 code_type: CENTER_SIZE nms_param { nms_threshold: 1.0 } "
    once = f"detection_output_param {{ {said} }}"
    made = nets.one("DetectionOutput", once, moves, chances, prior)
    assert made.shape == (1, 1, 16, 7)
    encoded = f"detection_output_param {{ {said} variance_encoded_in_target: true }}"
    moves = moves * prior[:, 1]
    assert nets.one("DetectionOutput", encoded, moves, chances, prior) == pytest.approx(made)


def test_boxes_by_the_sizes_of_their_priors(nets):
    moves, chances, prior = _detection_inputs(3, 1, 6, 2, True)
    said = "num_classes: 2 code_type: CORNER_SIZE nms_param { nms_threshold: 1.0 }"
    made = nets.one(
        "DetectionOutput", f"detection_output_param {{ {said} }}", moves, chances, prior
    )
    order = np.argsort(-chances.reshape(6, 2)[:, 1])
    corners, variances = prior.reshape(2, 6, 4)
    sizes = np.tile(corners[:, 2:] - corners[:, :2], 2)
    assert made[0, 0, :, 3:] == pytest.approx(
        (corners + variances * moves.reshape(6, 4) * sizes)[order], abs=1e-5
    )
    assert made[0, 0, :, 2] == pytest.approx(chances.reshape(6, 2)[order, 1])


def _proposals(scores, moves, image, stride, ratios, scales, before, after, overlap):
    """As py-faster-rcnn proposes regions, box by box."""
    height, width, scale = image
    found = []
    for y, x in np.ndindex(*scores.shape[2:]):
        kind = 0
        for ratio in ratios:
            wide = round(np.sqrt(256 / ratio))
            high = round(wide * ratio)
            for size in scales:
                w, h = wide * size, high * size
                cx, cy = x * stride + 7.5 + 0.5, y * stride + 7.5 + 0.5
                dx, dy, dw, dh = moves[0, kind * 4 : kind * 4 + 4, y, x]
                cx, cy, w, h = dx * w + cx, dy * h + cy, np.exp(dw) * w, np.exp(dh) * h
                box = [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]
                box = np.clip(box, 0, [width - 1, height - 1, width - 1, height - 1])
                if (box[2:] - box[:2] + 1 >= 16 * scale).all():
                    found.append((scores[0, len(ratios) * len(scales) + kind, y, x], box))
                kind += 1
    found.sort(key=lambda each: -each[0])
    kept = []
    for score, box in found[:before]:
        area = np.prod(box[2:] - box[:2] + 1)
        for _, other in kept:
            sides = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2]) + 1
            both = np.prod(np.maximum(sides, 0))
            if both / (area + np.prod(other[2:] - other[:2] + 1) - both) > overlap:
                break
        else:
            kept.append((score, box))
    return [[0, *box] for _, box in kept[:after]]


@pytest.mark.parametrize("python", [True, False])
def test_proposals(nets, python):
    draws = np.random.default_rng(4)
    ratios, scales = (0.5, 1.0, 2.0), (8.0, 16.0, 32.0) if python else (2.0, 4.0)
    kinds = len(ratios) * len(scales)
    scores = draws.uniform(size=(1, 2 * kinds, 5, 7)).astype(np.float32)
    moves = (draws.normal(size=(1, 4 * kinds, 5, 7)) / 4).astype(np.float32)
    image = np.array([[80, 112, 1.5]], np.float32)
    before, after, overlap = (6000, 300, 0.7) if python else (100, 12, 0.5)
    if python:
        said = (
            "module: 'rpn.proposal_layer' layer: 'ProposalLayer' param_str: \"'feat_stride': 16\""
        )
        made = nets.one("Python", f"python_param {{ {said} }}", scores, moves, image)
    else:
        said = "feat_stride: 16 scale: 2 scale: 4 ratio: 0.5 ratio: 1 ratio: 2 min_size: 16 "
        said += f"pre_nms_topn: {before} post_nms_topn: {after} nms_thresh: {overlap} base_size: 16"
        made = nets.one("Proposal", f"proposal_param {{ {said} }}", scores, moves, image)
    wanted = _proposals(scores, moves, image[0], 16, ratios, scales, before, after, overlap)
    assert made.shape == (len(wanted), 5)
    assert made == pytest.approx(np.array(wanted), abs=1e-3)


def _between(plane, y, x):
    """The value between pixels; zero more than one pixel outside."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = max(y, 0), max(x, 0)
    top, left = min(int(y), height - 1), min(int(x), width - 1)
    if top == height - 1:
        y = top
    if left == width - 1:
        x = left
    low, right = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    above = plane[top, left] * (1 - dx) + plane[top, right] * dx
    below = plane[low, left] * (1 - dx) + plane[low, right] * dx
    return above * (1 - dy) + below * dy


@pytest.mark.parametrize("samples", [2, 0])
def test_aligned_regions(nets, rng, samples):
    x = rng(2, 3, 6, 7)
    regions = np.array([[0, 1, 1, 9, 8], [1, 2.5, 0, 13, 11]], np.float32)
    said = f"pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 sampling_ratio: {samples}"
    made = nets.one("ROIAlign", f"roi_align_param {{ {said} }}", x, regions)
    for at, (image, *corners) in enumerate(regions):
        x0, y0, x1, y1 = np.array(corners) / 2
        wide, high = max(x1 - x0, 1) / 3, max(y1 - y0, 1) / 2
        rows, columns = (
            (samples, samples) if samples > 0 else (int(np.ceil(high)), int(np.ceil(wide)))
        )
        for c, i, j in np.ndindex(3, 2, 3):
            points = [
                _between(
                    x[int(image), c],
                    y0 + high * (i + (a + 0.5) / rows),
                    x0 + wide * (j + (b + 0.5) / columns),
                )
                for a, b in np.ndindex(rows, columns)
            ]
            assert made[at, c, i, j] == pytest.approx(np.mean(points), abs=1e-5)


def test_upsampling_by_the_mask_of_a_pooling(nets, rng):
    x = rng(2, 3, 4, 6)
    layers = """
    layer { name: "p" type: "Pooling" bottom: "x" top: "p" top: "mask"
      pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
    layer { name: "y" type: "Upsample" bottom: "p" bottom: "mask" top: "y"
      upsample_param { scale: 2 } }
    """
    made = nets.run(layers, {"x": x})["y"]
    assert made.shape == x.shape
    largest = x.reshape(2, 3, 2, 2, 3, 2).max((3, 5)).repeat(2, 2).repeat(2, 3)
    assert np.array_equal(made, np.where(x == largest, x, 0))
