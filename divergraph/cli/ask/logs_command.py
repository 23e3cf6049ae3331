"""``divergraph logs``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from divergraph.cli.options import common, opened_to_read, print_or_show, say_rest, shown_option
from divergraph.cli.say import say
from divergraph.text.words import counted

if TYPE_CHECKING:
    from divergraph.ask.device_logs import LogAnswer
    from importers.device_log import LogEvent

_PLACES = ("ASCEND_LOG_PATH", "ASCEND_PROCESS_LOG_PATH")
_DEFAULT = "~/ascend/log"


@click.command("logs")
@click.argument(
    "paths", nargs=-1, type=click.Path(path_type=Path, readable=False), metavar="[FILE|DIR]..."
)
@click.option("--run", metavar="NAME", help="Tie messages to the ops of this run or graph.")
@shown_option("messages of each op", 5)
@common
def logs_command(
    paths: tuple[Path, ...], run: str | None, limit: int, store: str | None, as_json: bool
) -> None:
    """Say what an Ascend device's logs hold: overflows, errors, compile messages, by op.

    Also loss scales that a training script printed, and where they fell: steps that overflowed.
    Without a path $ASCEND_LOG_PATH, $ASCEND_PROCESS_LOG_PATH or ~/ascend/log is read.
    """
    from divergraph.ask.device_logs import device_logs

    places = list(paths) or [_default()]
    if run is None:
        answer = device_logs(None, None, places)
    else:
        with opened_to_read(store) as opened:
            answer = device_logs(opened, run, places)
    show = partial(_show, limit=limit, tied=run is not None)
    print_or_show(answer, show, as_json=as_json, run=run)


def _default() -> Path:
    place = next((os.environ[name] for name in _PLACES if os.environ.get(name)), _DEFAULT)
    return Path(place).expanduser()


def _show(answer: LogAnswer, limit: int, *, tied: bool) -> None:
    events = [*answer.others, *(event for op in answer.ops for event in op.events)]
    counts = Counter(event.kind.value for event in dict.fromkeys(events))
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    say(f"{counted(answer.files, 'log')}: {summary or 'no error and no overflow'}", bold=True)
    for op in answer.ops:
        say(f"{op.op}")
        _show_events(op.events, limit)
    if answer.others:
        say("messages that name no op" + (" of the run" if tied else ""))
        _show_events(answer.others, limit)
    if answer.scales:
        values = [scale.value for scale in answer.scales]
        say(
            f"loss scale: {values[0]:g} first, {values[-1]:g} last, {len(answer.halved)} times less"
        )
    for scale in answer.halved[:limit]:
        say(f"  {scale.path}:{scale.line}: fell to {scale.value:g}: the step overflowed")
    say_rest(len(answer.halved), limit)


def _show_events(events: Sequence[LogEvent], limit: int) -> None:
    for event in events[:limit]:
        place = f"{event.path.name}:{event.line}"
        say(f"  {event.kind.value:9} {place}  {event.module} {event.text}")
        unknown = ", ".join(event.names)
        if unknown:
            say(f"            names {unknown}")
    say_rest(len(events), limit)
