"""``divergraph rename``, ``copy``, ``backup``, ``restore`` and ``store``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from divergraph.cli.options import (
    common,
    opened,
    opened_to_read,
    print_done,
    print_json,
    print_or_show,
)
from divergraph.cli.say import say, say_beside
from divergraph.present.declared_answer import answer_json
from divergraph.present.json_text import Json
from divergraph.text.words import counted
from graphstore.contract import StoreInfo

if TYPE_CHECKING:
    from graphstore.transfer.backup import BackupEntry

_path = click.Path(path_type=Path, readable=False)  # the readers say it in one line
_replace = click.option(
    "--replace", "replace_it", is_flag=True, help="Overwrite what is there under a name."
)


@click.command("rename")
@click.argument("name")
@click.argument("new_name", metavar="NEW")
@common
def rename_command(name: str, new_name: str, store: str | None, as_json: bool) -> None:
    """Give a run or imported graph another name, at once whatever its size."""
    with opened(store) as opened_store:
        opened_store.rename(name, new_name)
    print_done({"renamed": name, "to": new_name}, f"{name} is now {new_name}", as_json=as_json)


@click.command("copy")
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--to", required=True, metavar="DIR|URL", help="The store to copy to.")
@click.option("--as", "new_name", metavar="NEW", help="Another name there, for a single NAME.")
@click.option("--all", "all_of_them", is_flag=True, help="Copy every run and graph.")
@_replace
@common
def copy_command(
    names: tuple[str, ...],
    to: str,
    new_name: str | None,
    all_of_them: bool,
    replace_it: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Copy runs and imported graphs to another store, a folder or a server.

    Nothing is lost on the way, times included. What is there already with the same content
    stays as it is.
    """
    from graphstore.transfer.copying import StoreListing, copy_entries, copy_entry

    if bool(names) == all_of_them:
        raise click.UsageError("give the names to copy, or --all")
    if new_name is not None and len(names) != 1:
        raise click.UsageError("--as goes with a single NAME")
    with opened_to_read(store) as source, opened(to) as target:
        target.check_writable()
        if new_name is not None:
            copied = iter(
                [copy_entry(source, target, names[0], new_name=new_name, replace_it=replace_it)]
            )
        else:
            wanted = list(dict.fromkeys(names)) or StoreListing.of(source).names()
            copied = copy_entries(source, target, wanted, replace_it=replace_it)
        entries: list[Json] = []
        for entry in copied:
            entries.append(answer_json(entry))
            if not as_json:
                say_beside(f"{entry.kind} {entry.name}: {entry.done.value}")
    if as_json:
        print_json({"to": to, "copied": entries})


@click.command("backup")
@click.argument("file", type=_path)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@common
def backup_command(file: Path, names: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Write runs and imported graphs, all or those named, to one portable FILE.

    `divergraph restore` reads it into any store, of this or a later version.
    """
    from divergraph.files.whole_files import whole_file
    from graphstore.transfer.backup import write_backup

    with (
        opened_to_read(store) as opened_store,
        whole_file(file, "backup") as place,
        place.open("wb") as archive,
    ):
        written = list(write_backup(opened_store, archive, names))
    shape: Json = [answer_json(entry) for entry in written]
    message = f"wrote {_listed(written)} to {file}"
    print_done({"path": str(file), "entries": shape}, message, as_json=as_json)


@click.command("restore")
@click.argument("file", type=_path)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_replace
@common
def restore_command(
    file: Path, names: tuple[str, ...], replace_it: bool, store: str | None, as_json: bool
) -> None:
    """Read what `backup` wrote into the store: all of FILE, or the runs and graphs named.

    The file is checked first. Stopped in the middle, it can be repeated: what is there
    with the same content stays as it is.
    """
    from graphstore.transfer.restore import open_backup, restore

    entries: list[Json] = []
    with opened(store) as opened_store, open_backup(file) as backup:
        opened_store.check_writable()
        for entry in restore(backup, opened_store, names, replace_it=replace_it):
            entries.append(answer_json(entry))
            if not as_json:
                say_beside(f"{entry.kind} {entry.name}: {entry.done.value}")
    if as_json:
        print_json({"path": str(file), "restored": entries})


@click.group("store", context_settings={"help_option_names": ["-h", "--help"]})
def store_command() -> None:
    """Look after the store itself: what it holds, what is left over or damaged."""


@store_command.command("info")
@common
def info_command(store: str | None, as_json: bool) -> None:
    """Say what the store is, what it holds and what is wrong with it."""
    with opened_to_read(store) as opened_store:
        info = opened_store.info()
    print_or_show(info, _show_info, as_json=as_json)


@store_command.command("repair")
@click.option(
    "--set-aside", is_flag=True, help="Move damaged runs and graphs into the folder `damaged`."
)
@common
def repair_command(set_aside: bool, store: str | None, as_json: bool) -> int:
    """Remove what stopped processes left, and read everything to find damage.

    Runs of earlier versions get their tables; stopped, it goes on the next time. What another
    process is writing just now stays untouched. Nothing damaged is deleted.
    Exit code 3 if something damaged stays in its place.
    """
    with opened_to_read(store) as opened_store:
        done = opened_store.repair(set_aside=set_aside)
        damaged = opened_store.check()
    if as_json:
        print_json({"done": list(done), "damaged": list(damaged)})
    else:
        for text in done:
            say(text)
        for text in damaged:
            say(f"{text} (--set-aside moves it out of the way)")
        if not done and not damaged:
            say_beside("nothing to repair")
    return 3 if damaged else 0


def _show_info(info: StoreInfo) -> None:
    say(f"store    {info.url}")
    say(f"engine   {info.engine}")
    say(f"schema   {'none: nothing was written yet' if info.schema is None else info.schema}")
    say(
        f"holds    {counted(info.runs, 'run')}, {counted(info.graphs, 'graph')}, "
        f"{counted(info.ops, 'op')}"
    )
    if info.bytes is not None:
        say(f"on disk  {_size(info.bytes)}")
    for text in info.pending:
        say(f"pending  {text}")
    for text in info.damaged:
        say(f"damaged  {text}")
    for text in info.other_engines:
        say(f"engine   {text}")
    for text in info.views:
        say(f"views    made by {text}")
    if info.pending or info.damaged:
        say_beside("`divergraph store repair` puts this in order")


def _listed(entries: list[BackupEntry]) -> str:
    runs = sum(entry.kind == "run" for entry in entries)
    return f"{counted(runs, 'run')} and {counted(len(entries) - runs, 'graph')}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
