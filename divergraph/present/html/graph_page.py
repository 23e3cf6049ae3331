"""The picture of a graph as one HTML file that opens offline and uses no network.

All groups are in it, packed; its script is the one of a server's page, and asks them instead.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from functools import cache

from divergraph.ask.changed_ops import changes_since
from divergraph.ask.facts import Facts, load_facts
from divergraph.ask.graph_levels import GraphLevels
from divergraph.ask.traces import trace
from divergraph.present.declared_answer import answer_json
from divergraph.present.html.assets import page_asset
from divergraph.present.html.graph_room import GraphRoom, changes_markup, first_op
from divergraph.present.html.parts import shown as escaped
from divergraph.present.json_text import Json
from divergraph.text.printable import printable
from divergraph.text.words import verdict_text
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Side

MOST_OPS = 100_000
"""Of a side. A browser unpacks them in about two seconds; a server shows a million."""
_CHANGES, _PATHS = 20, 6


def graph_page(store: GraphStore, target: str, against: str = "") -> str:
    """The page of a run or an imported graph; with *against*, how a run changed since that one.

    Raises:
        UnknownNameError: no such run or graph.
        InputError: it has too many ops for a file, or the runs have nothing in common.
    """
    facts = load_facts(store, target)
    run = facts.run
    sides = (Side.DEVICE,) if run is None else (Side.DEVICE, Side.GOLDEN)
    levels = {side: GraphLevels(store, target, side, against) for side in sides}
    largest = max(one.ops for one in levels.values())
    if largest > MOST_OPS:
        hint = "`divergraph serve` shows it at /runs/RUN/graph"
        raise InputError(f"{largest:,} ops are too many for a file that a browser opens", hint=hint)
    groups: dict[str, Json] = {
        side.value: list(map(answer_json, one.all())) for side, one in levels.items()
    }
    changes = changes_since(store, against, target) if against else None
    room = GraphRoom(
        target,
        run is not None,
        first_op(facts.origins, changes),
        against=against,
        follows=bool(facts.origins),
    )
    packed = _packed_text(
        json.dumps({"levels": groups, "paths": _paths(store, facts), "why": _reasons(facts)})
    )
    head = "" if run is None else f'<p class="quiet">{escaped(verdict_text(run))}</p>'
    listed = "" if changes is None else changes_markup(changes, _CHANGES, lambda *_: "#")
    scripts = "\n".join(map(page_asset, ("graph_file.js", "graph.js")))
    digest = base64.b64encode(hashlib.sha256(scripts.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "worker-src blob:; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escaped(target)}: graph - Divergraph</title>"
        f"<style>{page_asset('look.css')}{page_asset('pages.css')}</style></head><body><main>\n"
        f"<h1>{escaped(target)}</h1>{head}{listed}{room.markup()}\n</main>"
        '<noscript><p class="problem">The picture needs scripts.</p></noscript>\n'
        f'<script type="application/gzip" id="graph-data">{packed}</script>\n'
        f'<script type="text/plain" id="graph-layout">{_layout()}</script>\n'
        f"<script>{scripts}</script></body></html>\n"
    )


@cache
def _layout() -> str:
    return _packed_text(page_asset("vendored/dagre.min.js") + page_asset("graph_layout.js"))


def _packed_text(text: str) -> str:
    """*text* such that nothing in it can end an element."""
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)).decode()


def _paths(store: GraphStore, facts: Facts) -> dict[str, Json]:
    """By origin: the path on which most of its error is carried."""
    if facts.run is None:
        return {}
    traced = {one.op: trace(store, facts.run.name, one.op).paths for one in facts.origins[:_PATHS]}
    return {op: answer_json(paths[0]) for op, paths in traced.items() if paths}


def _reasons(facts: Facts) -> dict[str, Json]:
    """By op: the sentences that say what is wrong with it."""
    reasons: dict[str, Json] = {}
    for one in (*facts.answer.origins, *facts.answer.suspects) if facts.answer else ():
        more = (finding.sentence for finding in one.findings)
        sentences = [one.sentence, *(text for text in more if text not in one.sentence)]
        reasons[one.origin.op] = list(map(printable, sentences))
    return reasons
