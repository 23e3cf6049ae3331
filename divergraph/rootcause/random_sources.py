"""Random numbers: a device draws its own, or none where it leaves a Dropout out.

Where it did not dump them, what takes them is run on golden's. If that fits, the device was
given the same; if not, nobody can tell an error from another draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import OpGraph
from graphstore.model import TensorRef

_NAMED = 3


def random_feed(golden: OpGraph, group: Group) -> str | None:
    """The op whose random numbers *group* was fed as golden drew them."""
    feeds = (feed.golden for feed in group.feeds if feed.device is None)
    ops = (ref.op for ref in feeds if ref is not None and ref.op in golden.drawn)
    return next((golden.ops[op].name for op in ops), None)


def remarks(drawn: Mapping[TensorRef, str]) -> Iterator[str]:
    """What is said of outputs that could not be judged, by output the op that drew."""
    for source in dict.fromkeys(drawn.values()):
        behind = [str(ref) for ref, each in drawn.items() if each == source]
        more = f" and {len(behind) - _NAMED} more" if len(behind) > _NAMED else ""
        yield (
            f"{source} draws random numbers, which the device did not dump: whether it drew "
            f"others or none is not known, so nothing is said of {', '.join(behind[:_NAMED])}{more}"
        )
