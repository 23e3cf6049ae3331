"""Device ops that hold several originals, as far as names alone tell.

A fusion pass calls the new op by the names of the ops it takes, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from divergraph.dump_diff.pairing import NamePairing
from importers.kept import told_of

_MOST_ORIGINALS = 100


def fused_notes(pairing: NamePairing, golden: Iterable[str]) -> list[str]:
    """What to say of the unpaired device ops called by several of the ops *golden*."""
    golden_names = set(golden) - {""}
    ops = dict.fromkeys(tensor.identity.op for tensor in pairing.device_only)
    fused = [
        f"{op} ({', '.join(parts)})" for op in ops if len(parts := _parts(op, golden_names)) > 1
    ]
    return told_of(
        fused,
        "device {op holds|ops hold} several originals and {was|were} compared with none "
        "(divergraph compare pairs by the graphs)",
    )


def _parts(name: str, golden_names: Set[str]) -> tuple[str, ...]:
    """Those of *golden_names* that *name* is made of, longest first tried; empty if of none."""
    lengths = sorted({len(golden_name) for golden_name in golden_names}, reverse=True)
    dead: set[int] = set()

    def taken(at: int, depth: int) -> Iterator[tuple[str, ...]]:
        if at == len(name):
            yield ()
        if at in dead or depth > _MOST_ORIGINALS:
            return
        for length in lengths:
            part = name[at : at + length]
            if len(part) == length and part in golden_names:
                for rest in taken(at + length, depth + 1):
                    yield (part, *rest)
        dead.add(at)

    return next(taken(0, 0), ())
