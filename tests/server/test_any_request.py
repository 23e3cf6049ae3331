"""Thousands of requests that the description allows, and that it does not, by each role."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from analysed_runs import analysed_runs
from served import served

from divergraph.cli.main import run
from divergraph.server.settings import Limits, ServerSettings, UploadLimits
from divergraph.server.tokens import TokenFile, UserRole


@pytest.mark.exhaustive
@pytest.mark.parametrize("role", UserRole)
def test_no_request_is_answered_otherwise_than_described(tmp_path: Path, role: UserRole) -> None:
    """``pip install schemathesis`` first. Not every text is a filter or a query of Cypher: what is
    refused for that, though the description allows it, is no fault."""
    pytest.importorskip("schemathesis")
    store = str(tmp_path / "store")
    analysed_runs(tmp_path, store)
    for words in (["blame", "bad"], ["minimize", "bad", "--budget", "3"]):
        assert run([*words, "--store", store]) in (0, 1, 2)
    settings = ServerSettings(
        store,
        tokens=tmp_path / "tokens",
        state=tmp_path / "state",
        behind_proxy=True,
        roots=(("in", tmp_path),),
        limits=Limits(jobs=1, rate=1e6, burst=10**6, uploads=UploadLimits(bytes=10_000)),
    )
    token = TokenFile(tmp_path / "tokens").add("somebody", role)
    with served(settings) as client:
        command = [
            *(str(Path(sys.executable).with_name("schemathesis")), "run"),
            f"{client.base_url}/openapi.json",
            *("-H", f"Authorization: Bearer {token}", "--seed", "1", "--max-examples", "20"),
            *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
            *("--phases", "examples,coverage,fuzzing", "--continue-on-failure"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-10_000:]
