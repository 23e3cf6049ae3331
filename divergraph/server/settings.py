"""What a server is told when it starts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

LINKS = "links.json"
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one client may take: bytes of a body, seconds to send it, requests a second (and at
    once), rows of a page; ``workers`` are questions answered at once, ``connections`` clients.

    ``jobs`` run at once, ``jobs_of_one`` of them of one user, who may have ``waiting`` more in the
    queue; one that takes ``job_seconds`` is stopped. ``claim_seconds`` after a job was taken its
    process must have a folder."""

    body: int = 1 << 20
    body_seconds: float = 10.0
    rate: float = 200.0
    burst: int = 400
    page: int = 10_000
    workers: int = 8
    connections: int = 1000
    jobs: int = 2
    jobs_of_one: int = 2
    waiting: int = 100
    job_seconds: float = 6 * 3600.0
    claim_seconds: float = 60.0


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
