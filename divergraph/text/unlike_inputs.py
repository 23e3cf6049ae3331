"""What is said of an input that the sides were not fed alike."""

from __future__ import annotations

from collections.abc import Iterable

from graphstore.model import InputMismatch

_SHOWN = 3


def unlike_input_text(mismatch: InputMismatch) -> str:
    """``the device was fed golden's x flipped along axis 3``, with the ops that show it, or how
    far apart both are."""
    name = mismatch.tensor or mismatch.op
    if mismatch.relation:
        sentence = f"the device was fed golden's {name} {mismatch.relation}"
    else:
        sentence = f"the device was fed other values of {name} than golden"
    if mismatch.seen_at:
        more = ", ..." if len(mismatch.seen_at) > _SHOWN else ""
        return (
            f"{sentence}, as the outputs of {', '.join(mismatch.seen_at[:_SHOWN])}{more} show; "
            f"a dump of {name} would prove it"
        )
    return (
        sentence if mismatch.error is None else f"{sentence} (relative error {mismatch.error:.2g})"
    )


def unlike_inputs_text(mismatches: Iterable[InputMismatch]) -> str:
    """The same of all inputs; of one that is seen at several ops once."""
    seen = {
        (mismatch.tensor or mismatch.op).removesuffix(":0"): mismatch for mismatch in mismatches
    }
    return "; ".join(map(unlike_input_text, seen.values()))
