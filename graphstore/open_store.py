"""Open the store behind a path or URL."""

from __future__ import annotations

from pathlib import Path

from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.gc_paused import gc_paused

DEFAULT_STORE = ".divergraph"
"""The folder of a store that nobody named."""
_SERVER_SCHEMES = tuple(
    f"{scheme}{security}" for scheme in ("neo4j", "bolt") for security in ("", "+s", "+ssc")
)


def open_store(
    url_or_path: str | Path, *, read_only: bool = False, patience: float | None = None
) -> GraphStore:
    """The store at *url_or_path*: a folder, or ``neo4j://host[:port][/database]``.

    A folder need not exist: it is made at the first write, reading finds it empty. The
    engine is loaded only now. What is asked of a server that is lost is asked again for *patience*
    seconds; without it a question for half a minute, a change for one.

    Raises:
        InputError: the URL is not of a known kind.
        StoreError: the store cannot be opened.
    """
    text = str(url_or_path)
    scheme, separator, rest = text.partition("://")
    if isinstance(url_or_path, Path) or not separator:
        return _embedded(Path(url_or_path), read_only)
    if scheme == "file":
        return _embedded(Path(rest), read_only)
    if scheme in _SERVER_SCHEMES:
        from graphstore.neo4j import Neo4jStore

        return Neo4jStore.from_url(text, read_only=read_only, patience=patience)
    if scheme in ("http", "https"):
        from graphstore.remote.store import RemoteStore

        return RemoteStore(text, read_only=read_only)
    raise InputError(
        f"no store at {scheme}://",
        hint="give a folder, or a URL that starts with neo4j://, bolt:// or https://",
    )


def open_existing(url_or_path: str | Path, hint: str = "compare and import make one") -> GraphStore:
    """The store at *url_or_path*; a folder must be there, and not hold other things only.

    Reading another would find an empty store, as if the run of which was asked were gone.

    Raises:
        InputError: there is no such folder, or the URL is not of a known kind.
        StoreError: the store cannot be opened.
    """
    text = str(url_or_path).removeprefix("file://")
    if "://" not in text:
        _check_folder(Path(text), str(url_or_path), hint)
    return open_store(url_or_path)


def _check_folder(folder: Path, path: str, hint: str) -> None:
    if not folder.exists():
        raise InputError("there is no store", where=path, hint=hint)
    if _is_other_folder(folder):
        inside = folder / DEFAULT_STORE
        suggestion = f"did you mean {inside}?" if inside.is_dir() else hint
        raise InputError("the folder holds no store", where=path, hint=suggestion)


def _is_other_folder(folder: Path) -> bool:
    """Whether there is something in *folder*, and nothing of it is a store's."""
    from graphstore.embedded.folders import KINDS, STORE

    try:
        names = {path.name for path in folder.iterdir()}
    except OSError:  # a file, or not to be read: opening it says so
        return False
    if not names.isdisjoint((STORE, *KINDS)):
        return False
    # a store's own drafts are hidden, too
    return DEFAULT_STORE in names or any(not name.startswith(".") for name in names)


def _embedded(root: Path, read_only: bool) -> GraphStore:
    # loading the engine would have the collector walk a big run the caller has just made
    with gc_paused():
        from graphstore.embedded import EmbeddedStore

        return EmbeddedStore(root, read_only=read_only)
