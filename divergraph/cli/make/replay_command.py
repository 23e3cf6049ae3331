"""``divergraph replay``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.options import print_json
from divergraph.cli.say import say
from divergraph.outcomes import BAD_INPUT, DIVERGED, FINE

_OUTCOMES = {True: FINE, False: DIVERGED, None: BAD_INPUT}


@click.command("replay")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--device", is_flag=True, help="On the device's inputs, against its outputs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def replay_command(bundle: Path, device: bool, as_json: bool) -> int:
    """Run the part of a model in a BUNDLE again and compare its outputs.

    The program in the bundle is not run: ours runs the model, in a process with limits and
    without network. Exit code 1: other outputs, or a changed file; 2: it cannot be run here.
    """
    from divergraph.api.replay import replay

    check = replay(bundle, device=device)
    if as_json:
        side = "device" if device else "golden"
        fields = {"bundle": str(bundle), "side": side, "passed": check.passed}
        print_json({**fields, "lines": list(check.lines)})
    else:
        for line in check.lines:
            say(line)
    return _OUTCOMES[check.passed].exit_code
