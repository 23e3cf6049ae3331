"""The picture of a graph as markup: what its script draws in, on a server's page and in a file."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from divergraph.ask.folded_graph import FIGURES
from divergraph.ask.questions.compare_runs import RunChanges
from divergraph.text.printable import printable
from graphstore.model import Origin, Side

_KEYS = (
    "Up and down follow edges, left and right go to what stands beside, Enter opens a name space "
    "or shows an op, Escape folds, plus and minus zoom, 0 shows all. The table below says the same."
)
_HINT = "Click a name space to open it, an op to see its tensors, why it is so, and its other side."


@dataclass(frozen=True, slots=True)
class GraphRoom:
    """What the picture of a run or an imported graph offers.

    ``first`` is the op that is looked at unless the address says another, ``marks`` the ``start``
    and ``end`` of a part that is being chosen, ``against`` an older run that it is held against,
    which is one of the ``others`` to choose from. ``addresses`` say where its script asks for
    ``levels``, ``ops``, ``path``, ``op`` and ``layout``; a file has none.
    """

    name: str
    is_run: bool
    first: str
    marks: Mapping[str, str] = field(default_factory=dict)
    against: str = ""
    others: Sequence[str] = ()
    follows: bool = True
    find: str = "Find: part of a name, type or state   ( / )"
    addresses: Mapping[str, str] = field(default_factory=dict)

    def markup(self) -> str:
        """The elements."""
        addresses = "".join(f' data-{name}="{_exact(a)}"' for name, a in self.addresses.items())
        values = {"first": self.first, "against": self.against, "start": "", "end": ""}
        hidden = "".join(
            f'<input type="hidden" name="{name}" value="{_exact(value)}">'
            for name, value in (values | dict(self.marks)).items()
        )
        sides = (Side.DEVICE, Side.GOLDEN) if self.is_run else (Side.DEVICE,)
        panes = "".join(map(self._pane, sides))
        return (
            f'<div class="graph" data-graph data-show="both"{addresses}>\n{hidden}'
            f'<div class="tools">\n<div class="find"><label><span class="spoken">Find an op</span>'
            f'<input type="search" data-find placeholder="{_exact(self.find)}" autocomplete="off" '
            'spellcheck="false"></label><ul class="graph-hits"></ul></div>\n'
            f"{self._choices()}\n"
            '<span class="graph-status quiet" role="status" aria-live="polite"></span>\n</div>\n'
            f'<div class="graph-room">\n{panes}'
            '<aside class="graph-detail" aria-label="What is selected" tabindex="0">'
            f'<p class="quiet">{_HINT}</p></aside>\n</div>\n</div>'
        )

    def _choices(self) -> str:
        if not self.is_run:
            return (
                '<select data-colour hidden aria-label="Colour"><option value="state">state'
                '</option></select><select data-show hidden aria-label="Show">'
                '<option value="both">both</option></select>'
                '<button type="button" data-follow hidden>Follow the error</button>'
            )
        colours = ["state", *(["change"] if self.against else []), *FIGURES]
        shows = (("both", "both sides"), ("device", "device"), ("golden", "original"))
        options = {name: name.replace("_", " ") for name in colours}
        parts = [_choice("Colour", "colour", options), _choice("Show", "show", dict(shows))]
        if self.others:
            runs = {"": "no other run", **{run: printable(run) for run in self.others}}
            parts.append(_choice("Since", "against", runs, self.against))
        hidden = "" if self.follows and self.first else " hidden"
        parts.append(
            f'<button type="button" data-follow aria-pressed="false"{hidden}>'
            "Follow the error</button>"
        )
        return "\n".join(parts)

    def _pane(self, side: Side) -> str:
        title = {Side.DEVICE: "device", Side.GOLDEN: "original"}[side] if self.is_run else self.name
        zooms = (("1.4", "+", "Zoom in"), ("0.7", "−", "Zoom out"), ("fit", "Fit", "Fit"))  # noqa: RUF001
        buttons = "".join(
            f'<button type="button" data-zoom="{factor}" aria-label="{label}">{sign}</button>'
            for factor, sign, label in zooms
        )
        heads = ["name", "type", "state", *(["change"] if self.against else [])]
        heads += ["relative error", "reads"]
        columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
        return (
            f'<div class="pane" data-side="{side.value}">\n<div class="pane-bar">'
            f'<b>{html.escape(printable(title))}</b><span class="space"></span>{buttons}</div>\n'
            f'<div class="pane-picture"><canvas tabindex="0" role="application" '
            f'aria-label="The {side.value} graph. {_KEYS}"></canvas>'
            '<canvas class="minimap" aria-hidden="true"></canvas></div>\n'
            '<details class="pane-table"><summary>As a table: <span class="graph-where">the whole '
            'graph</span></summary><div class="wide" tabindex="0" role="group" '
            'aria-label="The table; scroll it"><table class="list"><thead><tr>'
            f"{columns}</tr></thead><tbody></tbody></table></div></details>\n</div>\n"
        )


def first_op(origins: Sequence[Origin], changes: RunChanges | None) -> str:
    """The op that is looked at first: the worst change, or the first origin; "" if neither is."""
    changed = (change.op for change in changes.changes if change.op) if changes else iter(())
    return next(changed, origins[0].op if origins else "")


def changes_markup(
    changes: RunChanges, limit: int, address: Callable[[str, Side], str], table: str = ""
) -> str:
    """The worst *limit* changes of a run since another as a list; its ops lead to their *address*,
    *table* leads to all changes."""
    lines = []
    for change in changes.changes[:limit]:
        op = change.op or change.old_op or ""
        golden = change.golden.rpartition(":")[0]
        place = (change.op, Side.DEVICE) if change.op else (golden, Side.GOLDEN)
        rest = html.escape(printable(change.sentence.removeprefix(op)))
        link = (
            f'<a class="op" href="{_exact(address(*place))}" data-op="{_exact(place[0])}" '
            f'data-side="{place[1].value}">'
            f"{html.escape(printable(op))}</a>"
        )
        lines.append(f'<li data-change="{change.kind.value}">{link}{rest}</li>')
    count = f"{len(changes.changes)} change{'s' if len(changes.changes) != 1 else ''}"
    notes = "".join(f"{html.escape(printable(note))}. " for note in changes.notes)
    more = f'<a href="{_exact(table)}">The table with all numbers</a>' if table else ""
    return (
        '<details class="graph-changes" open><summary>Since '
        f"<b>{html.escape(printable(changes.old.name))}</b>: {count}</summary>"
        f'<ul class="plain">{"".join(lines)}</ul><p class="how">{notes}{more}</p></details>'
    )


def _choice(label: str, name: str, options: Mapping[str, str], chosen: str = "") -> str:
    entries = "".join(
        f'<option value="{_exact(value)}"{" selected" if value and value == chosen else ""}>'
        f"{html.escape(text)}</option>"
        for value, text in options.items()
    )
    return f"<label>{label} <select data-{name}>{entries}</select></label>"


def _exact(value: str) -> str:
    """*value* as an attribute that the script reads back; a half surrogate it cannot."""
    return html.escape(value.encode("utf-8", "replace").decode())
