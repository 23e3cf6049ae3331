"""What a server is told when it starts."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path

from graphstore.errors import InputError

UPLOADS = "uploads"
"""The root of what users sent, ``uploads:ID/NAME``, and the name of its folder."""
_SENT = "upload_"
LINKS, SESSIONS = "links.json", "sessions.json"
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """How much may be uploaded: bytes of one, bytes and number of all of one user, the least bytes
    a second that a client sends. They are kept so many ``seconds``.

    Archives hold so many ``files``, and ``ratio`` times their own size, or ``always_bytes``; they
    are unpacked in ``memory`` MiB and ``unpack_seconds``."""

    bytes: int = 4 << 30
    bytes_of_one: int = 32 << 30
    of_one: int = 50
    rate: int = 16 << 10
    seconds: float = 7 * 24 * 3600.0
    files: int = 20_000
    ratio: int = 100
    always_bytes: int = 1 << 20
    memory: int = 512
    unpack_seconds: int = 600


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one client may take: bytes of a head (address and headers) and seconds to send it,
    seconds to read nothing of an answer, bytes of a body, seconds to send it, requests a second
    (and at once), rows of a page; ``workers`` are questions answered at once, ``files`` reports and
    exports made at once, ``connections`` clients. Answers sent last are ``kept``, so many MiB of
    them; ``opened`` MiB hold where the tensors are that were asked for last.

    ``jobs`` run at once, ``jobs_of_one`` of them of one user, who may have ``waiting`` more in the
    queue; one that takes ``job_seconds``, or ``job_memory`` MiB, is stopped. ``claim_seconds``
    after a job was taken its process must have a folder."""

    head: int = 32 << 10
    head_seconds: float = 10.0
    unread_seconds: float = 30.0
    body: int = 1 << 20
    body_seconds: float = 10.0
    rate: float = 200.0
    burst: int = 400
    page: int = 10_000
    workers: int = 8
    files: int = 2
    connections: int = 1000
    kept: int = 64
    opened: int = 256
    jobs: int = 2
    jobs_of_one: int = 2
    waiting: int = 100
    job_seconds: float = 6 * 3600.0
    job_memory: int = 16 << 10
    claim_seconds: float = 60.0
    uploads: UploadLimits = field(default_factory=UploadLimits)


def limits_of(texts: Iterable[str]) -> Limits:
    """The limits where *texts*, each ``NAME=NUMBER``, say others.

    Raises:
        InputError: there is no such limit, or it cannot be this.
    """
    limit_fields = {f"{_SENT}{declared.name}": declared for declared in fields(UploadLimits)}
    limit_fields |= {
        declared.name: declared for declared in fields(Limits) if declared.name != "uploads"
    }
    numbers: dict[str, int | float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in limit_fields:
            raise InputError(
                f"there is no limit {name!r}", hint=f"one of {', '.join(limit_fields)}"
            )
        kind = int if isinstance(limit_fields[name].default, int) else float
        try:
            numbers[name] = kind(number)
        except ValueError as error:
            raise InputError(f"{text!r} gives no number", hint=f"as {name}=100") from error
        if not 0 <= numbers[name] < float("inf"):
            raise InputError(f"a limit cannot be {number}", where=name)
    own = {name: value for name, value in numbers.items() if not name.startswith(_SENT)}
    sent = {name.removeprefix(_SENT): value for name, value in numbers.items() if name not in own}
    return Limits(**own, uploads=UploadLimits(**sent))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where a server listens, what it serves and to whom.

    ``roots`` are the folders, by name, in which dumps may be read; none: anywhere, which is for
    one's own machine. ``tokens`` is the file of those who may ask. ``hosts`` are names in a
    browser's address line that mean this server, beside its own. ``state`` is the folder of its
    jobs; without one there are none.
    """

    store: str
    host: str = "127.0.0.1"
    port: int = 8321
    roots: tuple[tuple[str, Path], ...] = ()
    tokens: Path = Path("tokens.json")
    state: Path | None = None
    hosts: tuple[str, ...] = ()
    behind_proxy: bool = False
    certificate: Path | None = None
    key: Path | None = None
    limits: Limits = field(default_factory=Limits)

    @property
    def needs_tokens(self) -> bool:
        """Whether others than this machine's users can reach it."""
        return self.behind_proxy or not is_loopback(self.host)

    @property
    def is_encrypted(self) -> bool:
        """Whether nobody on the way can read along."""
        return self.certificate is not None or self.behind_proxy

    @property
    def shares(self) -> Path | None:
        """The file of links that show one run; None: there are none."""
        return None if self.state is None else self.state / LINKS

    @property
    def sessions(self) -> Path | None:
        """The file of browsers that are logged in; None: they are until the server ends."""
        return None if self.state is None else self.state / SESSIONS

    @property
    def known_hosts(self) -> frozenset[str]:
        """Names by which requests may call this server; none: any, as a token is asked for."""
        if self.hosts:
            return frozenset({*self.hosts, self.host})
        return frozenset() if self.needs_tokens else _LOOPBACK_NAMES | {self.host}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches *host*, a name or an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
