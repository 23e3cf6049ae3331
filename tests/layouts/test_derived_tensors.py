"""Tensors that lie in no file: parts of others, and what a rank adds to a product."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from graphstore.model import DType, DumpTensorRef, TensorCut, TensorIO, TensorJoin, TensorProduct
from importers.dumps.arrays.npy import read_npy_header
from importers.dumps.index import open_dump
from importers.dumps.read import read_array


def dumped(path: Path, values: np.ndarray) -> DumpTensorRef:
    np.save(path, values)
    with open_dump(path) as (fd, size):
        return read_npy_header(fd, size).ref(path, ("op", TensorIO.OUTPUT, 0), DType.FLOAT32)


def test_a_part_of_a_tensor_times_a_number(tmp_path):
    values = np.arange(24, dtype=np.float32).reshape(6, 4)
    whole = dumped(tmp_path / "whole.npy", values)
    cut = TensorCut(whole, ((0, ((0, 1), (4, 6))), (1, ((2, 4),))), 2.0)
    part = read_array(replace(whole, shape=(3, 2), derived=cut))
    assert np.array_equal(part, 2 * values[[0, 4, 5], 2:])
    assert not part.flags.writeable


def test_a_single_number_times_a_number(tmp_path):
    loss = dumped(tmp_path / "loss.npy", np.float32(1.5))
    assert read_array(replace(loss, derived=TensorCut(loss, (), 2.0))) == 3.0


def test_addends_of_a_product_add_up_to_it(tmp_path):
    draw = np.random.default_rng(0).standard_normal
    left, right = draw((3, 4)).astype(np.float32), draw((5, 4)).astype(np.float32)
    refs = dumped(tmp_path / "left.npy", left), dumped(tmp_path / "right.npy", right)
    addends = []
    for run in ((0, 2), (2, 4)):
        parts = (
            replace(ref, shape=(rows, 2), derived=TensorCut(ref, ((1, (run,)),)))
            for ref, rows in zip(refs, (3, 5), strict=True)
        )
        addend = replace(refs[0], shape=(3, 5), derived=TensorProduct(*parts))
        addends.append(read_array(addend))
    assert np.allclose(sum(addends), left @ right.T, atol=1e-6)


def test_parts_side_by_side(tmp_path):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    whole = dumped(tmp_path / "whole.npy", values)
    end = replace(whole, shape=(3, 1), derived=TensorCut(whole, ((1, ((3, 4),)),)))
    joined = read_array(replace(whole, shape=(3, 5), derived=TensorJoin((end, whole), 1)))
    assert np.array_equal(joined, np.concatenate([values[:, 3:], values], 1))
