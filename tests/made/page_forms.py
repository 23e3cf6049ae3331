"""What a browser reads of a page before it sends a form."""

from __future__ import annotations

import re

import httpx


def seal_of(page: httpx.Response) -> str:
    """What the forms of a page hold."""
    return re.findall(r'name="seal" value="([0-9a-f]{64})"', page.text)[0]
