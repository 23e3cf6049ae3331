"""A temporary store for a run that the user has not saved, as all questions are asked of stores."""

from __future__ import annotations

import weakref

from graphstore.contract import GraphStore
from graphstore.own_folder import OwnFolder


def private_store(owner: object) -> GraphStore:
    """An empty store in the folder for temporary files, which goes when *owner* does.

    Raises:
        StoreError: the folder cannot be made or written.
    """
    from graphstore.open_store import open_store

    folder = OwnFolder("store")
    store = open_store(folder.path / "store")  # stores lock their own folder
    weakref.finalize(owner, _drop, store, folder)
    return store


def _drop(store: GraphStore, folder: OwnFolder) -> None:
    store.close()
    folder.remove()
