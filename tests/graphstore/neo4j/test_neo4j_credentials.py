"""Where user and password come from, and that nothing ever shows them."""

from __future__ import annotations

import traceback

import pytest

from graphstore.errors import ConfigError, InputError
from graphstore.neo4j.address import SCHEMES, parse_address
from graphstore.neo4j.credentials import find_credentials
from graphstore.neo4j.passwords import Password
from graphstore.open_store import open_store

FILE = """
["db.example.org"]
user = "ann"
password = "of the host"

["db.example.org:7688"]
password = "of the port"

["neo4j+s://db.example.org:7688"]
password = "of the URL"
database = "runs"
"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_address(scheme):
    address = parse_address(f"{scheme}://db.example.org/runs")
    assert str(address) == f"{scheme}://db.example.org:7687/runs"
    assert address.server == f"{scheme}://db.example.org:7687"


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("bolt://me:se/cret@host", "no user name or password in it"),
        ("bolt://host:port", "not a usable URL"),
        ("bolt://host:99999", "not a usable URL"),
        ("bolt://host?policy=x", "ends with the database"),
        ("http://host", "no Neo4j at http"),
    ],
)
def test_addresses_that_are_none(url, what):
    with pytest.raises(InputError, match=what) as caught:
        parse_address(url)
    assert "cret" not in str(caught.value)


def test_the_environment_goes_first(neo4j_toml):
    neo4j_toml(FILE)
    there = {"NEO4J_USERNAME": "bob", "NEO4J_PASSWORD": "of bob"}
    found = find_credentials(parse_address("neo4j://db.example.org"), there)
    assert (found.user, found.password.reveal()) == ("bob", "of bob")
    assert found.source == "NEO4J_PASSWORD"


@pytest.mark.parametrize(
    ("url", "user", "password", "database"),
    [
        ("neo4j://db.example.org", "ann", "of the host", None),
        ("bolt://db.example.org:7688", "neo4j", "of the port", None),
        ("neo4j+s://db.example.org:7688", "neo4j", "of the URL", "runs"),
    ],
)
def test_the_most_exact_section_of_the_file(neo4j_toml, url, user, password, database):
    path = neo4j_toml(FILE)
    found = find_credentials(parse_address(url), {})
    assert (found.user, found.password.reveal(), found.database) == (user, password, database)
    assert found.source == str(path)


def test_nothing_for_another_server(neo4j_toml):
    neo4j_toml(FILE)
    with pytest.raises(InputError, match=r'set NEO4J_PASSWORD.*\["other.org:7687"\].*neo4j\.toml'):
        find_credentials(parse_address("neo4j://other.org"), {})


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_file_others_can_read_or_write_is_refused(neo4j_toml, mode):
    neo4j_toml(FILE, mode)
    with pytest.raises(ConfigError, match=rf"other users can read.*mode {mode:o}.*chmod 600"):
        open_store("neo4j://db.example.org")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('["h"]\npassword = secret', r"this is no TOML \(at line 2"),
        ('password = "secret"', "password stands in no section"),
        ('["h"]\npasword = "secret"', "unknown key 'pasword'"),
        ('[db.example.org]\npassword = "secret"', "unknown key 'example'.*quote names with dots"),
        ('["h"]\npassword = 12345', "must be text in quotes"),
        ('["h"]\nuser = "me"', "has no password"),
    ],
)
def test_a_wrong_file_is_said_without_its_passwords(neo4j_toml, text, what):
    neo4j_toml(text)
    with pytest.raises(ConfigError, match=what) as caught:
        find_credentials(parse_address("bolt://h"), {})
    shown = "".join(traceback.format_exception(caught.value))
    assert "secret" not in shown
    assert "12345" not in shown


def test_nothing_shows_a_password(monkeypatch):
    monkeypatch.setenv("NEO4J_PASSWORD", "very secret")
    found = find_credentials(parse_address("bolt://h"))
    store = open_store("bolt://h")
    shown = [repr(found), str(found), f"{found.password}", repr(vars(store))]
    shown += [repr(vars(value)) for value in vars(store).values() if hasattr(value, "__dict__")]
    assert "very secret" not in "".join(shown)
    assert found.password.reveal() == "very secret"
    assert repr(Password("x")) == "Password(...)"
    store.close()
