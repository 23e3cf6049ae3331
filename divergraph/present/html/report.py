"""A run as one self-contained HTML file that opens offline and uses no network. Names in a model
stay text: the page's policy allows only its own script, by its hash."""

from __future__ import annotations

import base64
import hashlib
from functools import cache

from divergraph.present.html import parts
from divergraph.present.html.assets import page_asset, picture_style
from divergraph.present.html.data import page_data
from divergraph.present.run_report import RunReport

_SCRIPTS = ("data.js", "table.js", "scatter.js", "plot.js", "page.js")


def html_report(report: RunReport) -> str:
    """The page. Summary, origins and findings are in it as text; table and plot are drawn by
    its script from columns of numbers, so that 100,000 tensors stay usable."""
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    body = [
        parts.head(report.run, report.device_name, report.golden_name),
        "<main>",
        parts.origins(report.answer),
        f"<noscript><section>{parts.worst(report)}</section></noscript>",
        page_asset("interactive.html"),
        parts.blame(report.run),
        parts.findings(report.answer.findings),
        parts.notes(report.notes),
        parts.not_compared(report.reasons),
        parts.about(report.run),
        "</main>",
        f'<script type="application/json" id="data">{page_data(report)}</script>',
        f"<script>{script}</script>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{parts.shown(report.run.name)}: {report.run.verdict.value} - Divergraph</title>"
        f"<style>{page_asset('look.css')}{picture_style()}{page_asset('report.css')}</style></head><body>\n"
        + "\n".join(body)
        + "\n</body>"
        "</html>\n"
    )


@cache
def _script() -> str:
    return "(() => {\n" + "\n".join(map(page_asset, _SCRIPTS)) + "\n})();"
