"""Oracles of other packages."""

from __future__ import annotations

import pytest

# Those of a group share the runs they begin with.
pytestmark = pytest.mark.xdist_group("minimize")

ORACLE = """
from divergraph.submodel.minimize.verdicts import OracleAnswer, PartVerdict, Variant


class Picky:
    def __init__(self, parts, argument, options):
        self.identity = f"picky {argument}"
        self.variants = (Variant.GOLDEN,)
        self._bad = argument

    def judge(self, part, variant):
        if self._bad in part.ops:
            return OracleAnswer(PartVerdict.FAIL, f"it holds {self._bad}")
        return OracleAnswer(PartVerdict.PASS)

    def cancel(self):
        pass

    def close(self):
        pass
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with an oracle of its own, as pip leaves it."""
    place = tmp_path / "site"
    (place / "picky-1.0.dist-info").mkdir(parents=True)
    (place / "picky_oracle.py").write_text(ORACLE)
    facts = place / "picky-1.0.dist-info"
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: picky\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[divergraph.oracles]\npicky = picky_oracle:Picky\n")
    monkeypatch.syspath_prepend(str(place))


@pytest.mark.usefixtures("installed")
def test_an_oracle_of_another_package_is_asked(minimize):
    ended = minimize("one", "--oracle", "picky:join", "--json")
    assert ended.code == 1
    assert (ended.json["oracle"], ended.json["ops"]) == ("picky join", ["join"])
    assert ended.json["parts"][0]["said"] == "it holds join"


@pytest.mark.usefixtures("installed")
def test_it_is_listed_where_a_name_is_unknown(minimize):
    ended = minimize("one", "--oracle", "none")
    assert ended.code == 2
    assert "there are: command, device-model, evidence, picky, stand-in" in ended.err
