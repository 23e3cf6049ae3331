"""Addresses of what is on screen: one line that can be copied, sent and opened again.

``run/RUN``, then optionally ``/op/NAME`` and ``/output/PORT``, then ``?`` and settings
of the view, for example ``run/14/op/SoftmaxV2_31/output/0?view=ops&where=cos%3C0.99``.
An imported graph has ``graph/NAME`` in place of ``run/RUN``. Names are percent-encoded,
so that a slash inside a name is no separator.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode

from graphstore.errors import InputError

KINDS = ("run", "graph")
_SAFE = "@:+,~!$*()="


@dataclass(frozen=True, slots=True)
class ScreenAddress:
    """A place in the UI. Empty texts and None are "not said"; ``op`` is an op's id.

    ``starts`` and ``ends`` of a part are ops of the graph of ``side``.
    """

    target: str
    kind: str = "run"
    op: str = ""
    output: int | None = None
    view: str = ""
    where: str = ""
    sort: str = ""
    descending: bool = False
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    side: str = ""

    def __str__(self) -> str:
        path = f"{self.kind}/{quote(self.target, safe=_SAFE)}"
        if self.op:
            path += f"/op/{quote(self.op, safe=_SAFE)}"
            if self.output is not None:
                path += f"/output/{self.output}"
        settings = {"view": self.view, "where": self.where, "sort": self.sort}
        query = {name: value for name, value in settings.items() if value}
        if self.descending:
            query["order"] = "descending"
        if self.side:
            query["side"] = self.side
        pairs = list(query.items())
        pairs += [("start", op) for op in self.starts] + [("end", op) for op in self.ends]
        return f"{path}?{urlencode(pairs)}" if pairs else path


def parse_address(text: str) -> ScreenAddress:
    """The address *text* spells; raises :class:`InputError` naming the wrong part."""
    path, _, query = text.partition("?")
    parts = path.split("/")
    if len(parts) not in (2, 4, 6) or parts[0] not in KINDS or not parts[1]:
        raise _wrong(text, "it starts with run/NAME or graph/NAME")
    op, output = "", None
    if len(parts) >= 4:
        if parts[2] != "op" or not parts[3]:
            raise _wrong(text, "/op/NAME follows the run")
        op = unquote(parts[3])
    if len(parts) == 6:
        if parts[4] != "output" or not (parts[5].isascii() and parts[5].isdigit()):
            raise _wrong(text, "/output/NUMBER follows the op")
        output = int(parts[5])
    settings, starts, ends = _settings(text, query)
    return ScreenAddress(
        target=unquote(parts[1]),
        kind=parts[0],
        op=op,
        output=output,
        view=settings.get("view", ""),
        where=settings.get("where", ""),
        sort=settings.get("sort", ""),
        descending=settings.get("order", "") == "descending",
        starts=starts,
        ends=ends,
        side=settings.get("side", ""),
    )


def _settings(text: str, query: str) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """The settings said once, the starts and the ends."""
    pairs = parse_qsl(query, keep_blank_values=True)
    for name, _ in pairs:
        if name not in {"view", "where", "sort", "order", "side", "start", "end"}:
            raise _wrong(text, f"there is no setting {name!r}")
    starts = tuple(value for name, value in pairs if name == "start")
    ends = tuple(value for name, value in pairs if name == "end")
    return dict(pairs), starts, ends


def _wrong(text: str, why: str) -> InputError:
    return InputError(f"{text!r} is not an address", hint=why)
