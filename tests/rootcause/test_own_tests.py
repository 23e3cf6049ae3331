"""What is found instead of listed has tests: each tolerance a file, each label a case."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

from divergraph.rootcause import tolerances
from divergraph.rootcause.causes.contract import cause_rules
from divergraph.rootcause.devices.precision import precisions

HERE = Path(__file__).parent
OF_CAUSES = "".join(path.read_text() for path in (HERE / "causes").glob("test_*.py"))
OF_DEVICES = "".join(path.read_text() for path in (HERE / "devices").glob("test_*.py"))
LABELS = sorted({label for rule in cause_rules() for label in rule.labels})
TOLERANCES = [
    found.name.rpartition(".")[2]
    for found in walk_packages(tolerances.__path__, f"{tolerances.__name__}.")
    if hasattr(import_module(found.name), "TOLERANCE")
]


@pytest.mark.parametrize("module", TOLERANCES)
def test_a_tolerance_has_a_file_of_tests(module) -> None:
    assert (HERE / "tolerances" / f"test_{module}.py").exists()


@pytest.mark.parametrize("label", LABELS)
def test_a_cause_has_a_case(label) -> None:
    assert f'"{label}"' in OF_CAUSES


@pytest.mark.parametrize("precision", precisions(), ids=str)
def test_an_arithmetic_has_tests(precision) -> None:
    assert f"precisions.{precision} import" in OF_DEVICES
