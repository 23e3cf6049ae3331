"""``divergraph serve token`` and ``serve share``: who may ask a server, and what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from divergraph.cli.options import opened_to_read, print_done, print_json
from divergraph.cli.say import say, say_beside, say_cells
from divergraph.present.json_text import Json
from divergraph.server.login.shares import DAYS, MOST_DAYS, ShareFile, ShareLink
from divergraph.server.settings import LINKS
from divergraph.server.tokens import TokenFile, UserRole

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """What the commands of one server are about: its store, the file of tokens, its folder."""

    store: str
    tokens: Path
    state: Path

    @property
    def shares(self) -> ShareFile:
        """Its links that show one run."""
        return ShareFile(self.state / LINKS)


@click.group("token")
def token_command() -> None:
    """Who may ask a server, and what."""


@token_command.command("add")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in UserRole]),
    default=UserRole.READER.value,
    show_default=True,
    help="reader asks about runs; analyst also about values, renames, starts jobs; admin deletes.",
)
@_json
@click.pass_obj
def add_command(files: ServerFiles, name: str, role: str, as_json: bool) -> None:
    """Make a token for NAME and print it, this once."""
    token = TokenFile(files.tokens).add(name, UserRole(role))
    if as_json:
        print_json({"name": name, "role": role, "token": token})
    else:
        say(token)
        say_beside(f"for {name}, as {role}; only its hash is kept, in {files.tokens}")


@token_command.command("list")
@_json
@click.pass_obj
def list_command(files: ServerFiles, as_json: bool) -> None:
    """List who has a token."""
    tokens = TokenFile(files.tokens).all()
    if as_json:
        # not the hash, which is of use to nobody
        token_list: list[Json] = [
            {"name": token.name, "role": token.role.value, "created": token.created}
            for token in tokens
        ]
        print_json({"tokens": token_list})
        return
    for token in tokens:
        say_cells((token.name, token.role.value, token.created))


@token_command.command("remove")
@click.argument("name")
@_json
@click.pass_obj
def remove_command(files: ServerFiles, name: str, as_json: bool) -> None:
    """Have the token of NAME mean nothing from now on."""
    TokenFile(files.tokens).remove(name)
    print_done({"removed": name}, f"{name} has no token any more", as_json=as_json)


@click.group("share")
def share_command() -> None:
    """Links that show one run, read-only, to whoever has them."""


@share_command.command("add")
@click.argument("run")
@click.option(
    "--days",
    type=click.IntRange(1, MOST_DAYS),
    default=DAYS,
    show_default=True,
    metavar="N",
    help="It ends after so many days.",
)
@_json
@click.pass_obj
def share_add_command(files: ServerFiles, run: str, days: int, as_json: bool) -> None:
    """Make a link to RUN and print its path, this once: behind the address of the server."""
    with opened_to_read(files.store) as store:
        record = store.run(run)
    link, path = files.shares.add(record.name, record.created, "", days)
    if as_json:
        print_json({"link": _link_json(link), "path": path})
    else:
        say(path)
        say_beside(f"link {link.id} to {run} ends {link.ends}; only its hash is kept")


@share_command.command("list")
@_json
@click.pass_obj
def share_list_command(files: ServerFiles, as_json: bool) -> None:
    """List the links that have not ended."""
    links = files.shares.all()
    if as_json:
        link_list: list[Json] = [_link_json(link) for link in links]
        print_json({"links": link_list})
        return
    for link in links:
        say_cells((link.id, link.run, link.ends, link.maker))


@share_command.command("revoke")
@click.argument("link")
@_json
@click.pass_obj
def share_revoke_command(files: ServerFiles, link: str, as_json: bool) -> None:
    """Have a LINK, by its id, show nothing from now on."""
    revoked = files.shares.revoke(link)
    message = f"link {revoked.id} to {revoked.run} shows nothing any more"
    print_done({"revoked": revoked.id}, message, as_json=as_json)


def _link_json(link: ShareLink) -> dict[str, Json]:
    """A link without its hash, which is of use to nobody."""
    return {
        "id": link.id,
        "run": link.run,
        "created": link.created,
        "ends": link.ends,
        "maker": link.maker,
    }
