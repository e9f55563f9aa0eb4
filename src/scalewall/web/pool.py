"""Processes that compute, and what keeps a visitor from taking them all: budgets, cancelling, a short queue.

One process is kept for quick jobs, so that typing is answered while curves are being refined.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any

import attrs

from scalewall.errors import NoAnswer, ScalewallError

MOST_WAITING = 200
"""Jobs that may wait; more are refused."""

MOST_KEPT = 600
"""Answers that are kept."""

_GRACE = 5.0  # seconds over its budget after which a process is ended
_NICE = 5  # by how much long jobs stand back, so that quick ones and a browser beside are served first
_TICK = 0.02  # seconds between looks at whether a job is still wanted
_log = logging.getLogger(__name__)


class Cancelled(Exception):
    """Nobody waits for the job any more."""


class Busy(NoAnswer):
    """The server has too much to do."""


class Defect(Exception):
    """Something escaped from a job that should not have; it is in the server's log."""


@attrs.define(eq=False)
class Job:
    """Something to compute, and who waits for it."""

    key: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    seconds: float
    waiting: set[str]
    future: Future[Any] = attrs.field(factory=Future)

    @property
    def unwanted(self) -> bool:
        """Whether nobody waits for it any more."""
        return not self.waiting


class Pool:
    """A few processes, a queue before them and a cache behind.

    Parameters
    ----------
    processes
        For jobs that take long; one more is kept for quick ones.
    """

    def __init__(self, processes: int | None = None) -> None:
        self._lock = threading.Condition()
        self._queues: dict[bool, list[tuple[int, int, Job]]] = {True: [], False: []}
        self._count = itertools.count()
        self._flying: dict[str, Job] = {}
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._closed = False
        self.done = 0
        long = processes or min(4, max(1, os.cpu_count() or 1))
        self._threads = [
            threading.Thread(target=self._serve, args=(quick,), daemon=True)
            for quick in [True, *[False] * long]
        ]
        for thread in self._threads:
            thread.start()

    def kept(self, key: str) -> Any | None:
        """Return the answer kept under `key`, or None."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def under_way(self, key: str) -> bool:
        """Return whether the answer `key` is being found for somebody."""
        with self._lock:
            return key in self._flying and not self._flying[key].unwanted

    def ask(
        self,
        key: str,
        work: Callable[..., Any],
        *arguments: Any,
        who: str,
        seconds: float,
        quick: bool = False,
        urgency: int = 1,
    ) -> Job:
        """Return the job that answers `key`: done already, under way, or queued now.

        Raises
        ------
        Busy
            If too many wait already.
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                job = Job(key, work, (), seconds, {who})
                job.future.set_result(self._kept[key])
                return job
            job = self._flying.get(key) or Job(key, work, arguments, seconds, set())
            if not job.waiting and job.key in self._flying:  # being cancelled: begin anew
                job = Job(key, work, arguments, seconds, set())
            if self._closed:
                job.future.set_exception(Cancelled())
                return job
            job.waiting.add(who)
            if self._flying.get(key) is not job:
                queue = self._queues[quick]
                if len(queue) >= MOST_WAITING:
                    raise Busy("The server has too much to do just now; it will do to ask again in a minute.")
                self._flying[key] = job
                heapq.heappush(queue, (urgency, next(self._count), job))
                self._lock.notify_all()
            return job

    def leave(self, job: Job, who: str) -> None:
        """Say that `who` no longer waits for `job`; without anybody it is cancelled."""
        with self._lock:
            job.waiting.discard(who)

    def keep_only(self, who: str, keys: Collection[str]) -> None:
        """Say that of all that may be under way `who` waits for the jobs of `keys` alone."""
        with self._lock:
            for job in self._flying.values():
                if job.key not in keys:
                    job.waiting.discard(who)

    def wait(self, job: Job) -> Any:
        """Return the answer of `job`, once it is there.

        Raises
        ------
        Cancelled
            If it was cancelled.
        ScalewallError
            What the work raised.
        """
        return job.future.result(timeout=600.0)

    def cancel(self) -> None:
        """Take no more jobs, and cancel those that there are."""
        with self._lock:
            self._closed = True
            for job in self._flying.values():
                job.waiting.clear()
            self._lock.notify_all()

    def close(self) -> None:
        """Cancel what there is to do, and end all processes."""
        self.cancel()
        for thread in self._threads:
            thread.join(timeout=10.0)

    # What each thread does ------------------------------------------------------------------------

    def _next(self, quick: bool) -> Job | None:
        with self._lock:
            while True:
                while self._queues[quick]:
                    job = heapq.heappop(self._queues[quick])[2]
                    if not job.unwanted:
                        return job
                    self._finish(job, Cancelled())
                if self._closed:
                    return None
                self._lock.wait()

    def _finish(self, job: Job, result: Any) -> None:
        with self._lock:
            if self._flying.get(job.key) is job:
                del self._flying[job.key]
            if not isinstance(result, BaseException):
                self.done += 1
                self._kept[job.key] = result
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
        if isinstance(result, BaseException):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)

    def _serve(self, quick: bool) -> None:
        process = _Process(quick)
        while (job := self._next(quick)) is not None:
            try:
                result = process.run(job)
            except Exception as error:
                result = error
                if not isinstance(error, (Cancelled, ScalewallError)):
                    _log.exception("a job failed: %s", job.work.__name__)
                    result = Defect()
            if process.broken:
                process = _Process(quick)
            self._finish(job, result)
        process.end()


class _Process:
    """One process that computes, seen from the server."""

    def __init__(self, quick: bool) -> None:
        # Not forked: the server has threads, whose locks a fork would copy in whatever state they are.
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._stop = context.Event()
        self._process = context.Process(target=_work, args=(there, self._stop, quick), daemon=True)
        self._process.start()
        there.close()
        self.broken = False

    def run(self, job: Job) -> Any:
        self._stop.clear()
        end = time.monotonic() + job.seconds + _GRACE
        try:
            self._here.send((job.work, job.arguments, job.seconds))
            while not self._here.poll(_TICK):
                if job.unwanted:
                    self._stop.set()
                if time.monotonic() > end:
                    raise TimeoutError
            good, result = self._here.recv()
        except (OSError, EOFError, TimeoutError):
            self.end()
            raise _too_long(job.seconds) from None
        if good:
            return result
        raise result

    def end(self) -> None:
        self.broken = True
        self._process.kill()
        self._process.join()
        self._here.close()


def _too_long(seconds: float) -> NoAnswer:
    return NoAnswer(
        f"It took longer than the {seconds:g} s that the page allows for it; the command has no limit."
    )


def _work(pipe: Any, stop: Any, quick: bool) -> None:
    """Do what comes through the pipe, for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its processes itself
    if not quick and hasattr(os, "nice"):
        os.nice(_NICE)
    import warnings

    warnings.simplefilter("ignore", RuntimeWarning)  # absurd entries overflow on the way to an answer
    while True:
        try:
            work, arguments, seconds = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            with _watched(stop, time.monotonic() + seconds, seconds):
                answer = True, work(*arguments)
        except Exception as error:
            answer = False, error
        try:
            pipe.send(answer)
        except (BrokenPipeError, OSError):
            return
        except Exception:
            what = f"{type(answer[1]).__name__}, which cannot be sent: {str(answer[1])[:200]}"
            pipe.send((False, RuntimeError(what)))


class _watched:
    """Interrupts what runs inside when nobody wants it any more, or its time is up."""

    def __init__(self, stop: Any, end: float, seconds: float) -> None:
        self.stop, self.end, self.seconds = stop, end, seconds
        self.over = False

    def __enter__(self) -> None:
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, self.look)
            signal.setitimer(signal.ITIMER_REAL, _TICK)

    def look(self, *_: object) -> None:
        late = time.monotonic() > self.end
        if self.over:  # a signal that was under way when the work ended
            return
        if late or self.stop.is_set():
            self.over = True
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            raise _too_long(self.seconds) if late else Cancelled
        # Set anew each time: a signal that came while the last is looked into would wait for itself.
        signal.setitimer(signal.ITIMER_REAL, _TICK)

    def __exit__(self, *_: object) -> None:
        self.over = True
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0.0)
