"""Packages of strangers under our packages' names are named, with the cure."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from divergraph.files.own_packages import OWN_PACKAGES, strange_packages, strangeness


def test_ours_are_no_strangers() -> None:
    assert strange_packages() == ""


@pytest.mark.parametrize("name", ["graphstore", "importers"])
def test_a_package_that_hides_ours_ends_no_command_in_a_traceback(tmp_path, name) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "divergraph", "detect", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    (said,) = done.stderr.splitlines()
    assert f"{tmp_path / name} is not our package {name}" in said
    assert "environment of its own" in said


def test_a_distribution_that_overwrote_ours_is_named(monkeypatch) -> None:
    owners = {name: ["divergraph"] for name in OWN_PACKAGES} | {"tui": ["divergraph", "other-tui"]}
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: owners)
    assert strangeness("tui").startswith("other-tui overwrote our package tui: install")
    assert not strangeness("importers")
