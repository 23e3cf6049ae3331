"""``divergraph watch``."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from divergraph.cli.numbers import FiniteRange
from divergraph.cli.options import (
    common,
    method_option,
    opened,
    print_json,
    root_cause_options,
    store_url,
)
from divergraph.cli.run_name import NAME_IS_RUN
from divergraph.cli.say import ring, say, say_beside, say_error, say_note, tell_kept
from divergraph.present.declared_answer import answer_json
from divergraph.present.json_text import Json
from divergraph.text.words import counted

if TYPE_CHECKING:
    from divergraph.api.compare import CompareOptions
    from divergraph.api.watch import WatchedDump

_path = click.Path(path_type=Path, readable=False)
_seconds = FiniteRange(0, 1e6, min_open=True)
_QUIET = 5.0


@click.command("watch", context_settings=NAME_IS_RUN)
@click.argument("folder", type=_path, metavar="DIR")
@click.option("--golden", required=True, type=_path, metavar="GRAPH", help="The original model.")
@click.option("--golden-dump", required=True, type=_path, metavar="DIR", help="Its dump.")
@click.option("--device", required=True, type=_path, metavar="GRAPH|DIR", help="As of compare.")
@click.option(
    "--run",
    "name",
    default="watched",
    show_default=True,
    metavar="NAME",
    help="Runs are called NAME and the place of their dump.",
)
@click.option(
    "--settle",
    "quiet",
    type=_seconds,
    default=_QUIET,
    show_default=True,
    metavar="S",
    help="A dump in which nothing changed for S seconds is whole.",
)
@click.option("--idle", type=_seconds, metavar="S", help="End when nothing came for S seconds.")
@click.option("--until-guilty", is_flag=True, help="End at the first guilty op, with exit code 1.")
@click.option("--thresholds", type=_path, metavar="FILE", help="Limits as a TOML file.")
@click.option("--match", type=_path, metavar="FILE", help="Pinned and forbidden matches.")
@method_option
@root_cause_options
@common
def watch_command(
    folder: Path,
    golden: Path,
    golden_dump: Path,
    device: Path,
    name: str,
    quiet: float,
    idle: float | None,
    until_guilty: bool,
    store: str | None,
    as_json: bool,
    **judging: Unpack[CompareOptions],
) -> int:
    """Compare what a running job dumps below DIR, dump by dump, as they are whole.

    The first guilty op rings the terminal's bell. Ctrl-C ends it; what was compared is kept. Exit
    code 1 if an error starts anywhere, 2 if nothing could be compared, else 0.
    """
    from divergraph.api.watch import watch

    sides = golden, golden_dump, device
    with opened(store) as opened_store:
        dumps = watch(
            *sides,
            folder,
            store=opened_store,
            name=name,
            quiet=quiet,
            idle=idle,
            progress=True,
            **judging,
        )
        say_beside(f"watching {folder}; Ctrl-C ends it")
        watched = _followed(dumps, until_guilty=until_guilty, as_json=as_json)
    stored = sum(dump.kept for dump in watched)
    say_beside(f"kept {counted(stored, 'run')} {name}.* in {store_url(store)}")
    if as_json:
        guilty = _guilty(watched)
        entries: list[Json] = [answer_json(dump) for dump in watched]
        first = answer_json(guilty[0]) if guilty else None
        print_json({"folder": str(folder), "first": first, "dumps": entries})
    if _guilty(watched):
        return 1
    return 2 if watched and not stored else 0


def _followed(
    dumps: Generator[WatchedDump, None, None], *, until_guilty: bool, as_json: bool
) -> list[WatchedDump]:
    """What came of each dump, told as it came, until it ends or somebody ends it."""
    watched: list[WatchedDump] = []
    try:
        for dump in dumps:
            is_first = bool(dump.origins) and not _guilty(watched)
            watched.append(dump)
            _tell(dump, is_first=is_first, as_json=as_json)
            if until_guilty and dump.origins:
                break
    except KeyboardInterrupt:
        say_error("stopped")
    finally:
        dumps.close()
    return watched


def _tell(dump: WatchedDump, *, is_first: bool, as_json: bool) -> None:
    """Say what came of a dump; the first guilty op rings where somebody hears it."""
    if dump.run is None or not dump.kept:
        say_note(f"{dump.path}: {dump.problem}")
        return
    tell_kept(dump.name)
    starts = f", the error starts at {dump.origins[0].op}" if dump.origins else ""
    tell = say_beside if as_json else say
    tell(f"{dump.name}: {dump.run.verdict.value}{starts}", bold=is_first)
    sys.stdout.flush()
    if is_first:
        ring()


def _guilty(watched: Sequence[WatchedDump]) -> list[WatchedDump]:
    return [dump for dump in watched if dump.origins]
