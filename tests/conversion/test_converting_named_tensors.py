"""``divergraph convert -d`` of files that are no device dumps: arrays named as their tensors."""

from __future__ import annotations

import base64
import io
import json

import numpy as np


def encoded(array):
    file = io.BytesIO()
    np.save(file, array)
    return {"array": base64.b64encode(file.getvalue()).decode(), "polygraphy_class": "ndarray"}


def results(**runners):
    """Polygraphy's JSON of *runners*, each with the value of ``a/y`` in every iteration."""
    listed = [
        [f"{name}-N{place}-11/27/26-03:39:05", [{"outputs": {"a/y": encoded(v)}} for v in values]]
        for place, (name, values) in enumerate(runners.items())
    ]
    return json.dumps({"lst": listed, "polygraphy_class": "RunResults"})


def test_the_runners_of_one_polygraphy_file_can_be_held_against_each_other(divergraph, tmp_path):
    one, other = np.arange(6, dtype=np.float32), np.arange(6, dtype=np.float32) + 1
    both = tmp_path / "both.json"
    both.write_text(results(trt=[one], onnxrt=[other]))
    out = tmp_path / "out"
    assert divergraph("convert", "-d", both, "-out", out).code == 0
    assert np.array_equal(np.load(out / "trt-N0.0" / "a_y.npy"), one)
    assert np.array_equal(np.load(out / "onnxrt-N1.0" / "a_y.npy"), other)
    assert divergraph("diff", out / "trt-N0.0", out / "onnxrt-N1.0").code == 1


def test_diff_takes_all_iterations_and_runners_of_polygraphy_files(divergraph, tmp_path):
    good, bad = np.ones(6, np.float32), np.full(6, 9, np.float32)
    for name, last in (("device", bad), ("golden", good)):
        text = results(trt=[good, good], onnxrt=[good, last])
        (tmp_path / f"{name}.json").write_text(text)
    done = divergraph("diff", tmp_path / "device.json", tmp_path / "golden.json")
    assert done.code == 1
    assert "4 pairs: 4 compared, 1 over a limit" in done.out


def test_archives_and_single_tensors_become_what_their_tensors_are_called(divergraph, tmp_path):
    np.savez(tmp_path / "both.npz", x=np.eye(2), y=np.ones(3))
    done = divergraph("convert", "-d", tmp_path / "both.npz", "-out", tmp_path / "out")
    assert (done.code, done.out) == (0, f"{tmp_path / 'out'}: 2 files of 1 dump file\n")
    assert np.array_equal(np.load(tmp_path / "out" / "x.npy"), np.eye(2))
    laid_out = ("convert", "-d", tmp_path / "both.npz", "-out", tmp_path / "out", "-f", "NCHW")
    assert "has no device layout" in divergraph(*laid_out).out + divergraph(*laid_out).err
