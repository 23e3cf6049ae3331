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


def check_new_name(name: str) -> None:
    """Return if *name* can be given to a run or graph; older ones may have others.

    Raises:
        InputError: it cannot name a folder, or every command would take it for an option.
    """
    check_name(name)
    if name.startswith("-"):
        raise InputError(
            f"{name!r} cannot be a name", hint="commands take what starts with a dash for an option"
        )
