"""The values of tensors, whose dumps only the server has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from analysed_runs import OPS, analysed_runs
from served import served

import divergraph as dg
from divergraph.ask.tensor_values import ServedTensors
from divergraph.server.settings import ServerSettings
from graphstore.errors import QueryError
from graphstore.model import Side
from graphstore.open_store import open_store

pytestmark = pytest.mark.slow


def test_they_are_those_of_the_dumps(tmp_path: Path) -> None:
    url = str(tmp_path / "store")
    analysed_runs(tmp_path, url)
    run = dg.open_store(url).run("bad")
    settings = ServerSettings(url, tokens=tmp_path / "none")
    with served(settings) as client, open_store(str(client.base_url)) as remote:
        tensors = ServedTensors(lambda ask: ask(remote), "bad")
        for op in OPS:
            own, sent = run.tensor(op), tensors.values(op, 0, is_output=True)
            assert repr(sent) == repr(own)
            assert sent.comparison == own.comparison
            assert sent.layout == own.layout
            for side in Side:
                np.testing.assert_array_equal(sent.plain(side), own.plain(side))
            assert sent.at("1:3,::2").device.tolist() == own.at("1:3,::2").device.tolist()
        with pytest.raises(QueryError, match="not compared"):
            remote.tensor("bad", "fc", sent.io, 7)
