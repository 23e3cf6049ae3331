"""An operand format in a package of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from narrow_device import NarrowDevice

from divergraph.rootcause.arithmetic import contract

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "extend.md"


def example() -> str:
    """The file that the how-to shows."""
    blocks = re.findall(r"```python\n(.*?)```", HOW_TO.read_text("utf-8"), re.DOTALL)
    (found,) = (each for each in blocks if "class Fp6Blocks" in each)
    return found


@pytest.fixture
def formats_anew() -> Iterator[None]:
    """Formats are looked for once a process: here before and after as well."""
    known = contract.readings, contract.whole_formats
    for each in known:
        each.cache_clear()
    yield
    for each in known:
        each.cache_clear()


@pytest.fixture
def installed(tmp_path, monkeypatch, formats_anew):
    """The how-to's package, as pip leaves it."""
    facts = tmp_path / "site" / "fp6-1.0.dist-info"
    facts.mkdir(parents=True)
    (tmp_path / "site" / "fp6_blocks.py").write_text(example())
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: fp6\nVersion: 1.0\n")
    named = "[divergraph.arithmetics]\nfp6 = fp6_blocks:ARITHMETIC\n"
    (facts / "entry_points.txt").write_text(named)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def fp6(rows: np.ndarray) -> np.ndarray:
    """Blocks of 24 in the 28 positive numbers of e3m2, with any scale."""
    fine = [0.0625 * k for k in range(4)]
    numbers = fine + [2.0**e * (1 + k / 4) for e in range(-2, 5) for k in range(4)]
    grid = np.array(sorted({*numbers, *(-each for each in numbers)}), np.float32)
    cut = rows.reshape(-1, 24)
    scale = np.abs(cut).max(1, keepdims=True) / np.float32(28)
    middles = (grid[1:] + grid[:-1]) / 2
    return (grid[np.searchsorted(middles, cut / scale)] * scale).reshape(rows.shape)


@pytest.mark.usefixtures("installed")
def test_a_format_of_another_package_explains_its_device(tmp_path) -> None:
    net = NarrowDevice(tmp_path)
    data = net.compared(net.values(fp6, fp6))
    assert not data.origins
    assert data.run.analysis.arithmetic.operands == {"linear layers": "fp6 by 24"}
    assert any("operands fp6 (e3m2) with a scale" in each for each in data.run.warnings)


@pytest.mark.usefixtures("formats_anew")
def test_without_it_nothing_known_does(tmp_path) -> None:
    net = NarrowDevice(tmp_path)
    assert net.compared(net.values(fp6, fp6)).run.analysis.arithmetic.operands == {}
