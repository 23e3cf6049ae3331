"""Ops whose results come out of their bodies: an error inside is no doing of theirs."""

from __future__ import annotations

from collections.abc import Collection

from graphstore.model import ModelGraph


def owners_around(graph: ModelGraph, inner: Collection[str]) -> set[str]:
    """The ops in whose bodies, at any depth, an op of *inner* is."""
    owners = {body.name: body.owner for body in graph.subgraphs}
    if not owners:
        return set()
    place = {op.id: op.subgraph for op in graph.ops}
    found: set[str] = set()
    for op in inner:
        owner = owners.get(place.get(op, ""), "")
        while owner and owner not in found:
            found.add(owner)
            owner = owners.get(place.get(owner, ""), "")
    return found
