"""Which inputs of a model with several signatures a run does not take."""

from __future__ import annotations

from graphstore.errors import InputError
from graphstore.model import ModelGraph

_PREFIX = "signature "
_DEFAULT = "serving_default"


def of_other_signatures(graph: ModelGraph, asked: str) -> dict[str, str]:
    """The ops that only other signatures than the one *asked* for are fed through, and why they
    are not run; with nothing asked for, that is TensorFlow's own default, if there is one.

    Raises:
        InputError: the model has no such signature.
    """
    fed = {
        name.removeprefix(_PREFIX): _fed_ops(str(said))
        for name, said in graph.attrs.items()
        if name.startswith(_PREFIX)
    }
    if asked and asked not in fed:
        listed = ", ".join(sorted(fed)) or "none"
        raise InputError(f"the model has no signature {asked!r}", hint=f"there are: {listed}")
    chosen = asked or _DEFAULT
    if chosen not in fed:
        return {}
    return {
        op: f"belongs to signature {name}" for name in sorted(fed) for op in fed[name] - fed[chosen]
    }


def _fed_ops(said: str) -> set[str]:
    """The ops that a signature is fed through, of what the importer says of it."""
    given = said.partition(" -> ")[0]
    tensors = (each.rpartition("=")[2] for each in given.split(", "))
    return {tensor.partition(":")[0] for tensor in tensors}
