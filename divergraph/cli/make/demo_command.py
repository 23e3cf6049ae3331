"""``divergraph demo``."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click

from divergraph.ask.questions.verdict import RunVerdict
from divergraph.cli.ask.propagation_text import role_counts
from divergraph.cli.options import common, opened, print_record, store_url
from divergraph.cli.say import say, say_lines, tell_kept
from divergraph.cli.text import show_run
from graphstore.model import Method

_SHARES, _LEAST = 3, 0.001


@click.command("demo")
@common
def demo_command(store: str | None, as_json: bool) -> int:
    """Compare one training step of LeNet with a faulty device run, both in the package.

    Exit code 0 although the run diverges: finding the fault is the point of it.
    """
    from divergraph.api.demo import demo, demo_data

    with opened(store) as opened_store:
        run = demo(opened_store, progress=True)
        data = run.data
        tell_kept(data.run.name)
        wanted = data.run.method is Method.ROOT_CAUSE and not as_json
        blame = run.blame(top=0, progress=True) if wanted else None
        roles = run.roles() if wanted else None
    if as_json:
        print_record(RunVerdict.of(data))
        return 0
    say_lines(
        "One training step of LeNet: golden values by TensorFlow on a CPU, device values by a\n"
        "stand-in for an NPU in which one fused op adds its bias to half of the channels only."
    )
    say()
    show_run(data)
    if roles is not None:
        say()
        say(f"what ops do to the error: {role_counts(roles)}")
    shares = [share for share in blame.shares if abs(share.share) > _LEAST] if blame else []
    if shares:
        say()
        say("shares of the error at the model's outputs (blame)")
        for top_share in shares[:_SHARES]:
            say(f"  {100 * top_share.share:+7.1f} %  {top_share.op}")
    command = _typed_command()
    where = f" --store {shlex.quote(store)}" if store else ""
    say()
    say(f"kept as 'demo' in {store_url(store)}, its data is in {demo_data().folder};")
    say("look around with")
    say()
    say(f"  {command} tui demo{where}")
    say(f"  {command} ops demo --where 'state:origin|inherited'{where}")
    if data.origins:
        say(f"  {command} trace demo {data.origins[0].op}{where}")
    return 0


def _typed_command() -> str:
    """The program as the user can type it: by its name only where the shell would find it."""
    program = Path(sys.argv[0])
    program_path = shutil.which("divergraph")
    if program.name != "divergraph" or (program_path and Path(program_path).samefile(program)):
        return "divergraph"
    return shlex.quote(sys.argv[0])
