"""RUN on a command line: any text, completed by the names in the store."""

from __future__ import annotations

from contextlib import suppress

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from graphstore.errors import DivergraphError


class _RunName(StringParamType):
    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from divergraph.cli.options import opened_to_read

        items: list[CompletionItem] = []
        with suppress(DivergraphError, OSError), opened_to_read(ctx.params.get("store")) as store:
            names = [run.name for run in store.runs()] + [info.name for info in store.graphs()]
            items = [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return items


RUN = _RunName()
"""The name of a run, or of an imported graph."""


def _run_option(token: str) -> str:
    return "run" if token == "name" else token


NAME_IS_RUN = {"token_normalize_func": _run_option}
"""Settings of a command that makes a run: ``--name``, as of ``import``, is its ``--run``, too."""
