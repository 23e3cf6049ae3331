"""``divergraph serve``."""

from __future__ import annotations

import hashlib
from pathlib import Path

import click

from divergraph.cli.options import common, packs_option, print_json, store_url
from divergraph.cli.say import say_beside
from divergraph.jobs.background.shelf import store_key
from divergraph.server.login.commands import ServerFiles, share_command, token_command
from divergraph.server.settings import UPLOADS, ServerSettings, is_loopback, limits_of
from divergraph.server.tokens import TokenFile
from graphstore.cypher.queries import list_queries
from graphstore.errors import InputError

_PORT = 8321
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
_file = click.Path(dir_okay=False, path_type=Path)


def _tokens_path() -> Path:
    from platformdirs import user_config_path

    return user_config_path("divergraph") / "tokens.json"


def _state_path(store: str) -> Path:
    from platformdirs import user_state_path

    name = hashlib.sha256(store_key(store).encode()).hexdigest()[:16]
    return user_state_path("divergraph") / "serve" / name


@click.group("serve", invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    metavar="N",
    help="The port; 0: any that is free.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="NAME=DIR",
    help="Read dumps below this folder only; repeat for more.",
)
@click.option(
    "--tokens",
    type=_file,
    metavar="FILE",
    help="Who may ask, made by `serve token add`. Default: in your configuration folder.",
)
@click.option("--certificate", type=_file, help="TLS certificate, as PEM.")
@click.option("--key", type=_file, help="Its private key, as PEM.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front of it does TLS.")
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="A name it is called by, too."
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where its jobs are kept. Default: a folder for this store in your state folder.",
)
@packs_option
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=N",
    help="Change a limit, as jobs=4 or job_memory=8192 (MiB); a wrong name lists all.",
)
@common
@click.pass_context
def serve_command(
    context: click.Context,
    host: str,
    port: int,
    roots: tuple[str, ...],
    tokens: Path | None,
    certificate: Path | None,
    key: Path | None,
    behind_proxy: bool,
    hosts: tuple[str, ...],
    state: Path | None,
    limits: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Answer over HTTP what the commands answer with --json, until it is stopped.

    On this machine's own address (127.0.0.1) everybody on it may ask; at any other address a
    token is needed, and TLS or a proxy that does it. /openapi.json describes all addresses,
    docs/how-to/serve.md how to run it. Needs the extra server.
    """
    path = tokens or _tokens_path()
    context.obj = ServerFiles(store_url(store), path, state or _state_path(store_url(store)))
    if context.invoked_subcommand is not None:
        return
    settings = ServerSettings(
        store=store_url(store),
        host=host,
        port=port,
        roots=tuple(_root(text) for text in roots),
        tokens=path,
        hosts=hosts,
        behind_proxy=behind_proxy,
        certificate=certificate,
        key=key,
        state=context.obj.state,
        limits=limits_of(limits),
    )
    _check(settings)
    list_queries()  # what is wrong with a pack is said before anybody asks
    try:
        from divergraph.server.running import serve
    except ImportError as error:
        hint = "pip install 'divergraph[server]'"
        raise InputError("the server is not installed", hint=hint) from error

    def listening(url: str) -> None:
        if as_json:
            print_json({"url": url, "store": settings.store})
        else:
            say_beside(f"serving {settings.store} at {url}; Ctrl-C ends it")

    serve(settings, listening)


def _root(text: str) -> tuple[str, Path]:
    name, sign, place = text.partition("=")
    path = Path(place).expanduser()
    if not name or not sign or not path.is_dir():
        raise InputError(f"{text!r} names no folder", hint="--root NAME=DIR")
    if name == UPLOADS:
        raise InputError(f"{name!r} is the root of what users send", hint="use another name")
    return name, path.resolve()


def _check(settings: ServerSettings) -> None:
    """Nobody serves strangers by accident.

    Raises:
        InputError: others could reach it without a token, or read along.
    """
    if (settings.certificate is None) != (settings.key is None):
        raise InputError("give --certificate and --key together")
    encrypted = settings.certificate is not None or settings.behind_proxy
    if not is_loopback(settings.host) and not encrypted:
        hint = "give --certificate and --key, or --behind-proxy; 127.0.0.1 needs neither"
        raise InputError(f"others could read along at {settings.host}", hint=hint)
    if settings.needs_tokens and not TokenFile(settings.tokens).all():
        hint = "`divergraph serve token add NAME --role reader` makes one"
        raise InputError("nobody has a token", where=str(settings.tokens), hint=hint)


serve_command.add_command(token_command)
serve_command.add_command(share_command)
