"""What runs and imported graphs may be called, the same on every store."""

from __future__ import annotations

from graphstore.errors import InputError

_MAX_NAME_BYTES = 200


def check_name(name: str) -> None:
    """Return if *name* can name a folder everywhere.

    Raises:
        InputError: it cannot.
    """
    if not name or name in (".", "..") or name.startswith(".") or name != name.strip():
        raise InputError(
            f"{name!r} cannot be a name", hint="it must not be empty or start with a dot or space"
        )
    bad = sorted({letter for letter in name if letter in "/\\" or not letter.isprintable()})
    if bad:
        raise InputError(f"the name {name!r} has {''.join(bad)!r} in it", hint="use another name")
    if len(name.encode()) > _MAX_NAME_BYTES:
        raise InputError(f"the name {name[:40]!r}... is longer than {_MAX_NAME_BYTES} bytes")
