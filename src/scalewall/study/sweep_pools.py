"""Who does the work of a sweep: processes of one's own, a Dask cluster, or any executor that is given."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from multiprocessing import connection, get_context, resource_tracker
from typing import Any

from scalewall.errors import InputError, ScalewallError
from scalewall.schema import whole

MOST_WORKERS = 4096
_UNKNOWN = 8  # workers that an executor is taken to have that does not say
_ADDRESS = re.compile(r"(?:(?:tcp|tls|wss?|ucx)://)?(?:[^\s:/\[\]]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")
_LOOK_SECONDS = 5.0  # between looks at how many workers a cluster has
_PATIENCE, _LOCAL_PATIENCE = 600.0, 30.0  # seconds that a cluster may be without workers
_ANSWER_SECONDS = 60.0  # within which a new pool must answer, once its predecessors have died


class Lost(ScalewallError):
    """Whoever did the work is gone, or cannot do it."""


def default_workers() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class Pool:
    """An executor that was given: it is used as it is, and left open."""

    name = "the executor"

    def __init__(self, executor: Executor, workers: int | None = None) -> None:
        self.executor = executor
        found = workers
        for attribute in ("_max_workers", "num_workers"):  # concurrent.futures, mpi4py
            found = found or getattr(executor, attribute, None)
        self.workers = int(found or _UNKNOWN)

    @property
    def title(self) -> str:
        """The name at the beginning of a sentence."""
        return self.name[0].upper() + self.name[1:]

    def submit(self, function: Any, *arguments: Any) -> Future[Any]:
        """Hand over a call.

        Raises
        ------
        Lost
            If the executor takes no more.
        """
        try:
            return self.executor.submit(function, *arguments)
        except BrokenExecutor:
            raise
        except RuntimeError as error:
            raise Lost(f"{self.title} takes no more work: {_line(error)}.") from None

    def check(self) -> None:
        """Raise `Lost` if nobody is there any more."""

    def died(self, error: BaseException) -> bool:
        """Return whether `error` says that a worker died over its work."""
        return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"

    def lost(self, error: BaseException) -> Lost:
        """Return what to say where the work could not be done for another reason."""
        if isinstance(error, (CancelledError, ConnectionError, TimeoutError)):
            return Lost(f"{self.title} has dropped work that it had taken.")
        return Lost(f"{self.title} cannot do the work: {type(error).__name__}: {_line(error)}")

    def renew(self) -> None:
        """Replace what is broken.

        Raises
        ------
        Lost
            If it cannot be replaced.
        """
        raise Lost(f"A worker of {self.name} died, and with it the executor.")

    def close(self, now: bool) -> None:
        """Let go; `now` means without waiting for work under way."""


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Keep Ctrl-C from processes and threads that begin meanwhile: it is for the driver alone."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # as it starts, it lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Processes(Pool):
    """Processes of this machine, which end with this one however it ends."""

    name = "the pool of processes"

    def __init__(self, workers: int) -> None:
        self._context = get_context("spawn")  # not copies: this process may have threads and locks
        self._breaks = 0
        super().__init__(self._new(workers), workers)

    def _new(self, workers: int) -> ProcessPoolExecutor:
        # Workers watch one end of a pipe; the other is here alone, and closes when this process ends.
        reader, self._stop = self._context.Pipe(duplex=False)
        return ProcessPoolExecutor(
            workers, mp_context=self._context, initializer=_begin_worker, initargs=(reader,)
        )

    def submit(self, function: Any, *arguments: Any) -> Future[Any]:
        """Hand over a call; processes begin as they are needed."""
        with _deaf():
            return super().submit(function, *arguments)

    def renew(self) -> None:
        """Start new processes in place of broken ones."""
        self._breaks += 1
        self.close(now=True)
        self.executor = self._new(self.workers)
        if self._breaks >= 3:  # perhaps it is not the work that kills them
            try:
                self.submit(_nothing).result(timeout=_ANSWER_SECONDS)
            except Exception:
                raise Lost(
                    "Worker processes die as they start: out of memory, or in a script without"
                    " 'if __name__ == \"__main__\":'."
                ) from None
            self._breaks = 0

    def close(self, now: bool) -> None:
        """End the processes."""
        if now:
            self._stop.close()
        self.executor.shutdown(wait=True, cancel_futures=True)
        self._stop.close()


def _nothing() -> None:
    """Show that a worker is there."""


def _begin_worker(reader: Any) -> None:
    """Prepare a worker: the driver's end, however it comes, ends the worker too."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            connection.wait([reader])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Dask(Pool):
    """A Dask cluster: one that is there, or one of this machine's processes."""

    def __init__(self, scheduler: str) -> None:
        local = re.fullmatch(r"local:(\d+)", scheduler)
        if local is None and not _ADDRESS.fullmatch(scheduler):
            must = "an address such as tcp://host:8786, or local:N"
            raise InputError("scheduler", must, scheduler)
        count = whole(local[1], "scheduler", 1, MOST_WORKERS) if local else 0
        distributed = need_dask()
        _silence()
        self.name = f"the scheduler at '{scheduler}'"
        self.cluster: Any = None
        if local:
            with _deaf():
                self.cluster = distributed.LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
        try:
            self.client = distributed.Client(self.cluster or scheduler, timeout=10, set_as_default=False)
        except (OSError, TimeoutError):
            raise Lost(f"{self.title} does not answer.") from None
        super().__init__(self.client.get_executor(pure=False), 1)
        self._looked = self._peopled = time.monotonic()
        self._look()

    def _look(self) -> None:
        """See how many workers there are: clusters grow and shrink."""
        self._looked = time.monotonic()
        try:
            threads = sum(self.client.nthreads().values())
        except (OSError, TimeoutError):
            raise Lost(f"{self.title} is gone.") from None
        if threads:
            self.workers, self._peopled = threads, self._looked
        patience = _LOCAL_PATIENCE if self.cluster is not None else _PATIENCE
        if self._looked - self._peopled > patience:
            raise Lost(f"{self.title} has had no workers for {patience:.0f} s.")

    def check(self) -> None:
        """Raise `Lost` if the scheduler is gone, or nobody works there any more."""
        if self.client.status != "running":
            raise Lost(f"{self.title} is gone.")
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._look()

    def lost(self, error: BaseException) -> Lost:
        """Return what to say where the work could not be done."""
        if isinstance(error, (CancelledError, ConnectionError, TimeoutError)):
            return Lost(f"{self.title} is gone, or has dropped the work.")
        return super().lost(error)

    def close(self, now: bool) -> None:
        """Leave the cluster, or end it if it was started here."""
        with contextlib.suppress(Exception):  # a cluster that is gone cannot be left in order
            if self.client.status == "running":
                self.executor.shutdown(wait=not now)
            self.client.close(timeout=2)
        if self.cluster is not None:
            with contextlib.suppress(Exception):
                self.cluster.close(timeout=5)


def _silence() -> None:
    """Leave it to the driver to say in one line that a scheduler or worker is gone."""
    chatty = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    for name in ("distributed", "tornado.application", "asyncio", *chatty):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def need_dask() -> Any:
    """Return `dask.distributed`.

    Raises
    ------
    ScalewallError
        If it is not installed.
    """
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ScalewallError(
            "A scheduler needs Dask, which is not installed: pip install 'scalewall[dask]'."
        ) from None
