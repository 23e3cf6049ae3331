"""The jars of a Neo4j server, fetched from Maven Central by the package ``jgo``.

They are Neo4j Community, GPLv3: the user's machine fetches them, once, into Maven's cache;
they are no part of ours and run as a process of their own. Of the versions tried, ``sha256/``
lists every file as ``sha256sum`` does: nothing else runs, wherever it was fetched from.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from graphstore.errors import InputError, StoreError
from graphstore.neo4j.local_server.java import NEEDED
from graphstore.private_folder import private_folder

LTS = "5.26.30"
"""The long-term release."""
NEWEST = "2026.08.1"
"""The newest calendar release tried."""
OLDEST = (5, 26)
"""The first release whose Cypher and procedures the store can use."""

_NAMED = {"lts": LTS, "newest": NEWEST}
_DOWNLOADS = 8
"""At once: what browsers allow themselves towards one host, and a little more."""
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_MAIN_CLASSES = ("org.neo4j.server.Neo4jCommunity", "org.neo4j.server.CommunityEntryPoint")


@dataclass(frozen=True, slots=True)
class Jars:
    """All jars of one version, and the class that starts the server."""

    version: str
    paths: tuple[Path, ...]
    main_class: str

    @property
    def classpath(self) -> str:
        """For Java's ``-cp``."""
        return os.pathsep.join(map(str, self.paths))


def version_number(text: str) -> str:
    """The version ``lts``, ``newest`` or a number stands for.

    Raises:
        InputError: it is none of these, or older than the store can use.
    """
    number = _NAMED.get(text, text)
    if not _VERSION.fullmatch(number):
        raise InputError(f"{text!r} is no version of Neo4j", hint=f"lts, newest, or like {LTS}")
    if tuple(map(int, number.split(".")[:2])) < OLDEST:
        raise InputError(
            f"Neo4j {number} is too old", hint=f"{'.'.join(map(str, OLDEST))} or newer is needed"
        )
    return number


def fetched_jars(version: str) -> Jars | None:
    """The jars of *version* if they are on this machine already, all and whole."""
    try:
        noted = json.loads(_note(version).read_text(encoding="utf-8"))
        jars = Jars(version, tuple(map(Path, noted["jars"])), noted["main_class"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # no note of an earlier fetch, or a damaged one: fetch
    digests = _listed(version)
    is_whole = not digests or {path.name for path in jars.paths} == set(digests)
    return jars if is_whole and not _broken(digests, jars.paths) else None


def fetch_jars(version: str, say: Callable[[str], None] | None = None) -> Jars:
    """The jars of *version*, fetched if they are not here yet (some 130 to 150 MB).

    Raises:
        StoreError: they cannot be fetched, or ``jgo`` is not installed.
    """
    here = fetched_jars(version)
    if here is not None:
        return here
    with _one_at_a_time():
        here = fetched_jars(version)  # another process may just have done it
        if here is not None:
            return here
        if say is not None:
            say(f"fetching Neo4j {version} from Maven Central (once, about 150 MB)")
        digests = _listed(version)
        paths = _build(version, say=say)
        if broken := _broken(digests, paths):
            _remove(broken)
            paths = _build(version, update=True, say=say)
        if broken := _broken(digests, paths):
            what = "not the file it was when this version was tried" if digests else "damaged"
            raise StoreError(
                f"{broken[0].name} of Neo4j {version} is {what}",
                where=str(broken[0]),
                hint="remove it, also from Maven's repository, and start again",
            )
        used = _used(digests, paths)
        jars = Jars(version, used, _main_class(version, used))
        _write_note(jars)
        return jars


def _build(
    version: str, *, update: bool = False, say: Callable[[str], None] | None
) -> Sequence[Path]:
    endpoint = f"org.neo4j:neo4j:{version}"
    try:
        import jgo
    except ImportError as error:
        raise StoreError(
            "a server needs the package jgo, which is not installed", hint=NEEDED
        ) from error
    try:
        # One after the other, which is jgo's way, most of the time is spent waiting.
        jars = {jar.cached_path: jar.resolve for jar in jgo.resolve(endpoint)}  # each file once
        _in_parallel(list(jars.values()), say)
        paths = sorted(jgo.build(endpoint, update=update).all_jars)
        # jgo takes the folder of a build that was killed for a whole one
        is_cut = len(paths) < len(jars)
        return sorted(jgo.build(endpoint, update=True).all_jars) if is_cut else paths
    except (OSError, RuntimeError, ValueError, AssertionError, SyntaxError) as error:
        # OSError: no network; the others: Maven Central has no such version, or something
        # in between answers with another page
        message = " ".join(str(error).split())[:300]
        raise StoreError(
            f"cannot fetch Neo4j {version}: {message or type(error).__name__}",
            hint="is Maven Central reached from here, and is there such a version?",
            retryable=True,
        ) from error


def _in_parallel(fetches: Sequence[Callable[[], Path]], say: Callable[[str], None] | None) -> None:
    """Fetch all files into Maven's repository, saying now and then how far that is."""
    size, steps = 0, {len(fetches) * quarter // 4 for quarter in (1, 2, 3)}
    with ThreadPoolExecutor(_DOWNLOADS) as pool:
        fetching = [pool.submit(fetch) for fetch in fetches]
        try:
            for count, done in enumerate(as_completed(fetching), 1):
                size += done.result().stat().st_size
                if say is not None and count in steps:
                    say(f"{count} of {len(fetches)} files are here, {size / 1e6:.0f} MB")
        finally:
            pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C, no further ones


def _listed(version: str) -> Mapping[str, str]:
    """The SHA-256 of each jar by its name; empty for a version nobody tried."""
    listing = files("graphstore.neo4j.local_server").joinpath("sha256", f"{version}.txt")
    if not listing.is_file():
        return {}
    lines = (line.split() for line in listing.read_text(encoding="ascii").splitlines())
    return {name: digest for digest, name in lines}


def _used(digests: Mapping[str, str], paths: Sequence[Path]) -> tuple[Path, ...]:
    """The jars that are run: with a list, what stands in it."""
    return tuple(path for path in paths if not digests or path.name in digests)


def _broken(digest_of: Mapping[str, str], paths: Sequence[Path]) -> list[Path]:
    """The jars that are not there, not whole (a zip's directory is at its end) or not those
    that *digest_of* lists."""
    broken = [path for path in paths if not zipfile.is_zipfile(path)]
    if not broken and digest_of:
        with ThreadPoolExecutor() as pool:
            digests = zip(paths, pool.map(_sha256, paths), strict=True)
            broken = [
                path for path, digest in digests if digest_of.get(path.name, digest) != digest
            ]
    return broken


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(broken: Sequence[Path]) -> None:
    """What a killed fetch left: in Maven's repository, and linked from there."""
    repository = Path.home() / ".m2" / "repository"
    for path in broken:
        for place in (path, *repository.rglob(path.name)):
            place.unlink(missing_ok=True)


def _main_class(version: str, jars: Sequence[Path]) -> str:
    """The class that starts the server; it was renamed between release lines."""
    for jar in jars:
        if jar.name == f"neo4j-{version}.jar":
            with zipfile.ZipFile(jar) as archive:
                names = set(archive.namelist())
            for name in _MAIN_CLASSES:
                if f"{name.replace('.', '/')}.class" in names:
                    return name
    raise StoreError(f"the jars of Neo4j {version} have no known main class")


def _cache() -> Path:
    import platformdirs

    return private_folder(platformdirs.user_cache_path("divergraph"))


def _note(version: str) -> Path:
    return _cache() / f"neo4j-{version}.json"


def _write_note(jars: Jars) -> None:
    note = _note(jars.version)
    draft = note.with_suffix(f".{os.getpid()}")
    text = json.dumps({"main_class": jars.main_class, "jars": [str(path) for path in jars.paths]})
    draft.write_text(text, encoding="utf-8")
    draft.replace(note)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two fetches at once would write into each other's files."""
    from graphstore.file_lock import held_lock

    with held_lock(_cache() / "neo4j-jars.lock"):
        yield
