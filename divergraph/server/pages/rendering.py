"""Pages as text: templates that show every name harmless."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from divergraph.present.html.assets import page_asset, picture_style
from divergraph.present.pictures.scales import less_is_worse
from divergraph.server.login.forms import FIELD, FormSeals
from divergraph.server.pages.links import Links
from divergraph.server.settings import ServerSettings
from divergraph.server.tokens import User, UserRole
from divergraph.text.numbers import short, small_number
from divergraph.text.printable import printable
from divergraph.text.words import REASON_WORDS, RULE_WORDS, figure_text, shape_text
from graphstore.model import Metric, MetricSet

# Scripts and styles are files of ours only, so no text of a page can become one.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    # With no-referrer a browser would not say where a form comes from.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
ASSETS = {
    "pages.css": ("text/css", ("look.css", "pages.css")),
    "pages.js": ("text/javascript", ("scatter.js",)),
    "cypher.js": ("text/javascript", ()),
    "graph.js": ("text/javascript", ("graph.js",)),
    "graph_layout.js": ("text/javascript", ("vendored/dagre.min.js", "graph_layout.js")),
}
"""By name: its media type, and the files of the report that it begins with."""


class Pages:
    """Makes pages of templates and answers."""

    def __init__(self, settings: ServerSettings, seals: FormSeals) -> None:
        self.settings, self.seals = settings, seals
        self._templates = _environment()

    def page(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any],
        status: int = 200,
        links: Links | None = None,
    ) -> Response:
        """The page of *template*, for whoever asks."""
        user: User = request.scope["user"]
        shared = bool(request.scope.get("root_path"))
        template_values = {
            "links": links or Links.of(request),
            "user": user,
            "shared": shared,
            "analyst": not shared and user.role.may(UserRole.ANALYST),
            "logged_in": bool(request.scope.get("session")),
            "sealed": Markup('<input type="hidden" name="{}" value="{}">').format(
                FIELD, self.seals.seal(request)
            ),
            "section": _section(request),
            "has_jobs": self.settings.state is not None,
            "version": assets_version(),
        }
        text = self._templates.get_template(template).render(template_values | dict(values))
        return HTMLResponse(text, status, HEADERS)


def _section(request: Request) -> str:
    """Under which heading of the menu a page is."""
    first = request.url.path.split("/")[1]
    return {"jobs": "jobs", "compare": "compare", "diff": "compare"}.get(first, "runs")


def asset(name: str) -> tuple[str, str]:
    """A file that pages use, and its media type.

    Raises:
        KeyError: there is none of this name.
    """
    kind, parts = ASSETS[name]
    place = resources.files("divergraph.server.pages") / "static" / name
    own = place.read_text(encoding="utf-8") if place.is_file() else ""
    style = picture_style() if name == "pages.css" else ""
    return "".join(map(page_asset, parts)) + style + own, kind


@cache
def assets_version() -> str:
    """Changes with the files that pages use, so that browsers may keep them."""
    joined = "".join(asset(name)[0] for name in sorted(ASSETS))
    return hashlib.sha256(joined.encode()).hexdigest()[:12]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("divergraph.server.pages"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_safe_text,
    )
    environment.globals |= {"reasons": REASON_WORDS, "rules": RULE_WORDS}
    filters: dict[str, Callable[..., Any]] = {
        "short": short,
        "small": lambda value: "-" if value is None else small_number(value),
        "figure": _figure,
        "name": _name,
        "shape": shape_text,
        "moment": moment,
        "percent": lambda value: "-" if value is None else f"{value:.0%}",
        "exact": _exact,
    }
    environment.filters |= filters
    return environment


def _figure(metrics: MetricSet, metric: str) -> str:
    return figure_text(metrics, Metric(metric), ".6f" if less_is_worse(metric) else ".3g")


def _name(name: str) -> Markup:
    """The name of an op, which may break behind its parts rather than inside of one."""
    parts = map(escape, re.split(r"(?<=[/_.:])(?=[^/_.:])", printable(name)))
    return Markup("<wbr>").join(parts)


def _exact(value: str) -> Markup:
    """*value* as a form is to send it back; a half surrogate no form can."""
    return Markup(escape(value.encode("utf-8", "replace").decode()))  # noqa: S704 - escaped


def _safe_text(value: Any) -> Any:
    """Texts as people may see them; what is markup already is ours."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def moment(value: str | float | None) -> str:
    """A time as pages show it; empty for none."""
    if value is None:
        return ""
    if isinstance(value, float | int):
        value = datetime.fromtimestamp(value, UTC).isoformat()
    return value[:19].replace("T", " ")
