"""``divergraph doctor``."""

from __future__ import annotations

import click

from divergraph.cli.options import common, print_json, store_url
from divergraph.cli.say import say
from divergraph.present.json.shapes import Json


@click.command("doctor")
@common
def doctor_command(store: str | None, as_json: bool) -> int:
    """Check the installation, the optional parts and the store; exit code 3 if one fails."""
    from divergraph.ask.doctor import checks

    results = checks(store_url(store))
    fine = all(check.fine or check.optional for check in results)
    if as_json:
        listed: list[Json] = [
            {
                "check": check.name,
                "fine": check.fine,
                "optional": check.optional,
                "detail": check.detail,
            }
            for check in results
        ]
        print_json({"fine": fine, "checks": listed})
    else:
        for check in results:
            mark = "ok  " if check.fine else "--  " if check.optional else "FAIL"
            say(f"{mark} {check.name:22} {check.detail}")
    return 0 if fine else 3
