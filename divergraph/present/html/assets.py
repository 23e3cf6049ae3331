"""The scripts and styles of the report and of the server's pages: files of ``page/``."""

from __future__ import annotations

from functools import cache
from importlib import resources

GRAPH_SCRIPT = "graph.js"
"""The script of the graph, which is made of parts that share what they declare."""
_GRAPH_PARTS = ("room", "scene", "drawing", "view", "pane", "selection", "start")


@cache
def page_asset(name: str) -> str:
    """A file of the page; look.css is that of the server's pages, too."""
    place = resources.files("divergraph.present.html") / "page"
    if name != GRAPH_SCRIPT:
        return place.joinpath(name).read_text(encoding="utf-8")
    parts = (place.joinpath("graph", f"{part}.js") for part in _GRAPH_PARTS)
    joined = "\n".join(part.read_text(encoding="utf-8") for part in parts)
    return f'"use strict";\n(() => {{\n{joined}}})();\n'


def picture_style() -> str:
    """The style of pictures inside of pages, in the colours these name."""
    place = resources.files("divergraph.present.pictures") / "picture.css"
    return place.read_text(encoding="utf-8")
