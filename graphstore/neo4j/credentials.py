"""Who we are to a Neo4j server, and where that was found. Passwords are never shown.

Looked at in this order:

1. ``NEO4J_PASSWORD``, with ``NEO4J_USERNAME`` (default ``neo4j``);
2. ``neo4j.toml`` in the user's configuration folder, a section per server::

       ["neo4j://db.example.org:7687"]
       user = "neo4j"
       password = "..."
       database = "runs"      # optional; one in the URL goes before it

   The name is ``scheme://host:port``, ``host:port`` or ``host``; the most exact one wins;
3. the server ``divergraph neo4j start`` manages, if the URL is its.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphstore.errors import ConfigError, InputError
from graphstore.neo4j.address import Address
from graphstore.neo4j.passwords import DEFAULT_USER, Password, check_private

USER_VARIABLE = "NEO4J_USERNAME"
PASSWORD_VARIABLE = "NEO4J_PASSWORD"
_KEYS = ("user", "password", "database")


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and password; ``source`` says where they are from, for error messages."""

    user: str
    password: Password
    source: str
    database: str | None = None


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    values: Mapping[str, str] = field(repr=False)


def config_path() -> Path:
    """The file with passwords for servers; it need not be there."""
    import platformdirs

    return platformdirs.user_config_path("divergraph") / "neo4j.toml"


def find_credentials(address: Address, environment: Mapping[str, str] = os.environ) -> Credentials:
    """The way in to the server at *address*.

    Raises:
        InputError: there is none.
        ConfigError: the file cannot be read, other users can read it, or a key is wrong.
    """
    password = environment.get(PASSWORD_VARIABLE)
    if password:
        user = environment.get(USER_VARIABLE) or DEFAULT_USER
        return Credentials(user, Password(password), PASSWORD_VARIABLE)
    credentials = _from_file(address, environment) or _of_managed_server(address)
    if credentials is None:
        raise InputError(
            "no password for this Neo4j server",
            where=str(address),
            hint=f"set {PASSWORD_VARIABLE} (and {USER_VARIABLE} if it is not {DEFAULT_USER}), "
            f'or add a section ["{address.place}"] with a password to {config_path()}',
        )
    return credentials


def _from_file(address: Address, environment: Mapping[str, str]) -> Credentials | None:
    path = config_path()
    sections = {section.name: section for section in _sections(path)}
    for name in (address.server, address.place, address.host):
        section = sections.get(name)
        if section is None:
            continue
        password = section.values.get("password")
        if not password:
            raise ConfigError(f'["{name}"] has no password', where=str(path))
        user = environment.get(USER_VARIABLE) or section.values.get("user") or DEFAULT_USER
        return Credentials(user, Password(password), str(path), section.values.get("database"))
    return None


def _sections(path: Path) -> Iterator[_Section]:
    try:
        check_private(path)
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at line \d+, column \d+", str(error))
        # not the parser's own words: they may quote a part of a password
        raise ConfigError(
            f"this is no TOML{f' ({place[0]})' if place else ''}",
            where=str(path),
            hint='sections like ["host:7687"] with user = "..." and password = "..."',
        ) from None
    except UnicodeDecodeError:
        raise ConfigError("this is no UTF-8 text", where=str(path)) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    for name, values in table.items():
        if not isinstance(values, dict):
            raise ConfigError(
                f"{name} stands in no section", where=str(path), hint='start with ["host:7687"]'
            )
        for key, value in values.items():
            if key not in _KEYS:
                raise ConfigError(
                    f'["{name}"] has an unknown key {key!r}',
                    where=str(path),
                    hint=f"known: {', '.join(_KEYS)}; quote names with dots in them",
                )
            if not isinstance(value, str):
                raise ConfigError(f'["{name}"] {key} must be text in quotes', where=str(path))
        yield _Section(name, values)


def _of_managed_server(address: Address) -> Credentials | None:
    from graphstore.neo4j.local_server.managed import managed_password

    password = managed_password(address)
    if password is None:
        return None
    return Credentials(DEFAULT_USER, password, "divergraph neo4j start")
