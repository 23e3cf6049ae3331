"""Batches done by the workers of a Dask cluster (extra ``cluster``).

Paths are sent and small results come back, never arrays, so every worker must see the
files under the same paths. Dask does the batches of a lost worker again elsewhere.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from divergraph.jobs.work import Batch, OpenBatches, Stopped, Work, run_batch
from graphstore.errors import ClusterError, InputError

T = TypeVar("T")
R = TypeVar("R")

_LOCAL = re.compile(r"local(?::([1-9]\d{0,3}))?")
_SAFE_PATH = "PYTHONSAFEPATH"
_AHEAD = 3
"""Batches given out for each worker, so that none waits for the next."""
_CONNECT_SECONDS = 10
_LOOK_SECONDS = 0.2
_PATIENCE_SECONDS = 60.0
"""So long a cluster may be without scheduler or workers: a lost worker is started again within
seconds, one of a busy machine within half a minute."""
_JOIN = "start `dask worker` with this address on machines that see the dumps"
DIED = "the workers that read it died: out of memory, or the file was cut meanwhile"


class DaskExecutor:
    """The cluster at *address*: ``tcp://host:8786``, or ``local`` / ``local:N`` for worker
    processes of its own on this machine, as many as cores or N.

    Raises:
        InputError: no such address, nobody there, or the workers have another version.
        ClusterError: there is no worker, or one of its own cannot be started.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._local = _LOCAL.fullmatch(address)
        if self._local is None and "://" not in address:
            raise InputError(
                f"--cluster {address}: no address of a scheduler",
                hint="tcp://host:8786, local, or local:N for N processes here",
            )
        try:
            import dask
            import distributed
        except ImportError as error:
            raise InputError(
                "the Dask libraries are not installed", hint="pip install 'divergraph[cluster]'"
            ) from error
        self._cluster: Any = None
        self._after = ExitStack()
        if self._local is not None:
            # A lost batch is told at once: it is tried again here, not by Dask.
            dask.config.set({"distributed.scheduler.allowed-failures": 0})
            # Its processes, those started again too, import nothing from the working directory,
            # which may be a folder of strangers' files.
            self._after.callback(_set_back, os.environ.get(_SAFE_PATH))
            os.environ[_SAFE_PATH] = "1"
            try:
                self._cluster = distributed.LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=int(self._local[1]) if self._local[1] else None,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,  # what goes wrong is said by us, in a sentence
                    # Dask's own pages are not shown, but served all the same: where nobody is
                    scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                )
            # Dask asserts that its thread began within ten seconds, which a crowded machine denies.
            except (AssertionError, OSError, RuntimeError, TimeoutError) as error:
                self._after.close()
                raise ClusterError(
                    f"--cluster {address}: its processes cannot be started: {_first_cause(error)}"
                ) from error
        try:
            client: Any = distributed.Client(  # type: ignore[no-untyped-call]
                self._cluster or address, timeout=_CONNECT_SECONDS
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                f"--cluster {address}: no scheduler answers", hint="is dask scheduler running?"
            ) from error
        except TypeError as error:  # what Dask says where its configuration names no certificate
            raise InputError(
                f"--cluster {address}: {error}",
                hint="docs/how-to/clusters.md has the settings of TLS",
            ) from error
        self._client: Any = client
        self.workers = max(self._threads(client), 1)

    def _threads(self, client: Any) -> int:
        """How many threads all workers have, once there are any."""
        # of a lost scheduler it would tell beside us
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        try:
            client.wait_for_workers(1, timeout=_PATIENCE_SECONDS)
            self._check_workers()
            threads: Mapping[str, int] = client.nthreads()
        except TimeoutError as error:
            client.close()
            raise ClusterError(
                f"--cluster {self._address}: no worker has joined the scheduler", hint=_JOIN
            ) from error
        except OSError as error:
            with suppress(OSError):  # nobody is there to say goodbye to
                client.close(timeout=1)
            raise self._gone() from error
        return sum(threads.values())

    def close(self) -> None:
        """Leave the cluster; one of its own is ended."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._after.close()

    def results(
        self, work: Work[T, R], items: Sequence[T], batches: Iterable[Batch], stopped: Stopped
    ) -> Generator[tuple[Batch, list[R]], None, None]:
        """Each batch, or the parts it was done in, as it gets done.

        Raises:
            ClusterError: scheduler or workers went away and did not come back.
        """
        import distributed

        waited: Any = distributed.wait
        todo = OpenBatches(batches)
        running: dict[Any, Batch] = {}
        alive = time.monotonic()
        try:
            while not stopped():
                alone = bool(todo.suspects)
                while len(running) < (1 if alone else _AHEAD * self.workers):
                    # Several batches may go down with one worker. Each is tried again with
                    # nothing beside it, so that none is lost for what another did.
                    batch = todo.next()
                    if batch is None:
                        break
                    batch_items = [items[number] for number in batch]
                    future = self._client.submit(run_batch, work, batch_items, pure=False)
                    running[future] = batch
                if not running:
                    return
                try:
                    done = waited(list(running), _LOOK_SECONDS, "FIRST_COMPLETED").done
                except TimeoutError:
                    missing = self._missing()
                    alive = time.monotonic() if missing is None else alive
                    if missing is not None and time.monotonic() - alive > _PATIENCE_SECONDS:
                        raise missing from None
                    continue
                except distributed.CancelledError as error:  # as a lost scheduler leaves them
                    raise self._gone() from error
                alive = time.monotonic()
                for future in done:
                    batch = running.pop(future)
                    try:
                        batch_results = future.result()
                    except distributed.KilledWorker:
                        if not todo.again(batch):
                            yield batch, [work.lost(items[batch[0]], DIED)]
                        continue
                    yield batch, batch_results
        finally:
            if self._client.status == "running":
                self._client.cancel(list(running))

    def _missing(self) -> ClusterError | None:
        """What the cluster lacks to go on with the work, as far as the client knows."""
        if self._client.status != "running":
            return self._gone()
        if self._client.scheduler_info().get("workers"):
            return None
        return ClusterError(f"--cluster {self._address}: no worker is left", hint=_JOIN)

    def _gone(self) -> ClusterError:
        return ClusterError(
            f"--cluster {self._address}: the scheduler is gone",
            hint="the same command goes on with what is done once it is back",
        )

    def _check_workers(self) -> None:
        from divergraph.version import __version__

        try:
            versions = self._client.run(_version)
        except Exception as error:
            raise InputError(
                f"--cluster {self._address}: its workers cannot run divergraph: {error}",
                hint="install the same version of divergraph on every worker",
            ) from error
        other = {version for version in versions.values() if version != __version__}
        if other:
            raise InputError(
                f"--cluster {self._address}: workers have version {', '.join(sorted(other))}, "
                f"this is {__version__}",
                hint="install the same version of divergraph on every worker",
            )


def _first_cause(error: BaseException) -> str:
    """What began it: Dask wraps what its processes say."""
    while (cause := error.__cause__) is not None:
        error = cause
    return str(error) or type(error).__name__


def _version() -> str:
    from divergraph.version import __version__

    return __version__


def _set_back(safe_path: str | None) -> None:
    """Our own environment as it was: commands of users are run in it."""
    if safe_path is None:
        os.environ.pop(_SAFE_PATH, None)
    else:
        os.environ[_SAFE_PATH] = safe_path
