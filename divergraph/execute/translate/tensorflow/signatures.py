"""Which inputs of a model with several signatures a run does not take."""

from __future__ import annotations

from graphstore.errors import InputError
from graphstore.model import ModelGraph

_PREFIX = "signature "
_DEFAULT = "serving_default"


def of_other_signatures(graph: ModelGraph, signature: str) -> dict[str, str]:
    """The ops that only other signatures than *signature* are fed through, and why they
    are not run; with nothing asked for, that is TensorFlow's own default, if there is one.

    Raises:
        InputError: the model has no such signature.
    """
    fed = {
        name.removeprefix(_PREFIX): _fed_ops(str(attr))
        for name, attr in graph.attrs.items()
        if name.startswith(_PREFIX)
    }
    if signature and signature not in fed:
        listed = ", ".join(sorted(fed)) or "none"
        raise InputError(f"the model has no signature {signature!r}", hint=f"there are: {listed}")
    chosen = signature or _DEFAULT
    if chosen not in fed:
        return {}
    return {
        op: f"belongs to signature {name}" for name in sorted(fed) for op in fed[name] - fed[chosen]
    }


def _fed_ops(text: str) -> set[str]:
    """The ops that a signature is fed through, of what the importer says of it."""
    inputs_text = text.partition(" -> ")[0]
    tensors = (entry.rpartition("=")[2] for entry in inputs_text.split(", "))
    return {tensor.partition(":")[0] for tensor in tensors}
