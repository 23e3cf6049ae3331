"""``--times``: from which factor on an error has changed."""

from __future__ import annotations

import click

from divergraph.cli.numbers import FiniteRange

times_option = click.option(
    "--times",
    type=FiniteRange(min=1, min_open=True),
    default=2.0,
    show_default=True,
    help="Errors that changed by less than this factor are the same.",
)
