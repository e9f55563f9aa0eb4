"""Keeps workers busy and writes down what they return; memory does not grow with the sweep."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from itertools import islice

import attrs

from scalewall.errors import ScalewallError
from scalewall.study.sweep_design import Values
from scalewall.study.sweep_pools import Lost, Pool
from scalewall.study.sweep_rows import (
    Core,
    Done,
    FileChanged,
    Row,
    error_line,
    made_by,
    make_row,
    unread_hash,
    work,
)
from scalewall.study.sweep_store import Store

Task = tuple[int, Values]
Progress = Callable[[int, int, str], None]

BATCH_SECONDS = 0.25  # that a batch of scenarios is meant to take a worker
_BATCHES_A_SECOND = 100.0  # that the driver is to see at most, however many workers there are
_MOST_IN_A_BATCH = 2000
_FLUSH_SECONDS, _FLUSH_ROWS = 1.0, 5_000  # after which rows are written
_POLL_SECONDS = 0.5
_DEATHS = (
    3  # of workers over a batch, after which it is tried alone; over a scenario, after which it is given up
)
_MOST_LINES = 100  # different errors that are counted apart


@attrs.define
class Batch:
    """Some scenarios that go to a worker together, and how many workers died over them."""

    tasks: Sequence[Task]
    deaths: int = 0


class Driver:
    """One run of a sweep.

    Parameters
    ----------
    core
        What workers must know.
    tasks
        The scenarios that are missing.
    store
        Where rows go.
    pool
        Who works.
    tell
        Called with how many rows this run has written.
    """

    def __init__(
        self, core: Core, tasks: Iterator[Task], store: Store, pool: Pool, tell: Callable[[int], None]
    ) -> None:
        self.core, self.tasks, self.store, self.pool, self.tell = core, tasks, store, pool, tell
        self.waiting: dict[Future[Done], Batch] = {}
        self.again: deque[Batch] = deque()
        self.alone: deque[Batch] = deque()
        self.rows: list[Row] = []
        self.written = self.failed = 0
        self.busy = 0.0  # seconds that workers have worked
        self.errors: Counter[str] = Counter()
        self._each: float | None = None
        self._last = 1
        self._flushed = time.monotonic()
        self._error_at = list(core.columns).index("error")

    def run(self) -> None:
        """Work until nothing is missing.

        Raises
        ------
        ScalewallError
            If workers or disk are gone; what workers had returned is written where it can be.
        """
        try:
            while self._step():
                self._flush()
            self._flush(now=True)
        except (KeyboardInterrupt, Lost, FileChanged):
            waiting, self.waiting = self.waiting, {}
            for future, batch in waiting.items():
                if future.done() and not future.cancelled() and future.exception() is None:
                    self._take(future.result(), batch)
            self._flush(now=True)
            raise

    def _step(self) -> bool:
        """Hand out work and take in what is done; return whether there is more to do."""
        if self.alone and not self.waiting:
            self._one_alone(self.alone.popleft())
            return True
        while not self.alone and len(self.waiting) < 2 * self.pool.workers + 1:
            batch = (
                self.again.popleft() if self.again else Batch(tuple(islice(self.tasks, self._next_size())))
            )
            if not batch.tasks:
                break
            if not self._submit(batch):
                return True
        if not self.waiting:
            return bool(self.alone)
        done, _ = wait(self.waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        self.pool.check()
        for future in done:
            if future in self.waiting:
                self._settle(future, self.waiting.pop(future))
        return True

    def _submit(self, batch: Batch) -> bool:
        try:
            self.waiting[self.pool.submit(work, self.core, batch.tasks, self._budget())] = batch
        except BrokenExecutor:
            self.again.appendleft(batch)
            self._broken()
            return False
        return True

    def _target(self) -> float:
        return max(BATCH_SECONDS, self.pool.workers / _BATCHES_A_SECOND)

    def _budget(self) -> float:
        return 2.0 * self._target()

    def _next_size(self) -> int:
        """Return how many scenarios make a batch: as many as take a worker about the time that is meant."""
        if self._each is not None:
            fitting = self._target() / max(self._each, 1e-7)
            self._last = int(max(1, min(fitting, 4 * self._last, _MOST_IN_A_BATCH)))
        return self._last

    # What comes back ---------------------------------------------------------------------------------

    def _settle(self, future: Future[Done], batch: Batch) -> None:
        error = None if future.cancelled() else future.exception()
        if future.cancelled():
            self.again.append(batch)
            raise Lost(f"{self.pool.title} has dropped work that it had taken.")
        if error is None:
            self._take(future.result(), batch)
        elif isinstance(error, FileChanged):
            raise error
        elif isinstance(error, BrokenExecutor):
            batch.deaths += 1
            self._back(batch)
            self._broken()
        elif self.pool.died(error):  # the cluster has tried it several times by itself
            batch.deaths = _DEATHS
            self._back(batch)
        else:
            raise self.pool.lost(error)

    def _take(self, done: Done, batch: Batch) -> None:
        if done.made_by != made_by():
            raise Lost(
                f"The workers have scalewall {done.made_by}, not {made_by()}: install the same everywhere."
            )
        self.rows += done.rows
        for row in done.rows:
            if row[self._error_at] is not None:
                self._count(row[self._error_at])
        if rest := batch.tasks[len(done.rows) :]:
            self.again.append(Batch(rest))
        self.busy += done.seconds
        each = done.seconds / len(done.rows)
        self._each = each if self._each is None else 0.7 * self._each + 0.3 * each

    def _count(self, line: str) -> None:
        self.failed += 1
        self.errors[line if line in self.errors or len(self.errors) < _MOST_LINES else "others"] += 1

    def _back(self, batch: Batch) -> None:
        (self.alone if batch.deaths >= _DEATHS else self.again).append(batch)

    def _broken(self) -> None:
        """Take in what was done when the pool broke, put the rest back, and have a new pool."""
        waiting, self.waiting = self.waiting, {}
        for future, batch in waiting.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                self._take(future.result(), batch)
            else:
                batch.deaths += 1
                self._back(batch)
        self.pool.renew()

    def _one_alone(self, batch: Batch) -> None:
        """Try a batch over which workers died with nothing beside it, to find what kills them."""
        try:
            future = self.pool.submit(work, self.core, batch.tasks, self._budget())
            while not future.done():
                wait([future], timeout=_POLL_SECONDS)
                self.pool.check()
            error = future.exception()
        except BrokenExecutor as broken:
            error = broken
        if error is None:
            self._take(future.result(), batch)
            return
        if not self.pool.died(error):
            raise self.pool.lost(error)
        if isinstance(error, BrokenExecutor):
            self.pool.renew()
        if len(batch.tasks) > 1:
            half = len(batch.tasks) // 2
            self.alone.extendleft([Batch(batch.tasks[half:]), Batch(batch.tasks[:half])])
            return
        batch.deaths = batch.deaths + 1 if batch.deaths < _DEATHS else 1
        if batch.deaths < _DEATHS and isinstance(error, BrokenExecutor):
            self.alone.appendleft(batch)
            return
        index, values = batch.tasks[0]
        given = {name: v for name, v in zip(self.core.names, values, strict=True) if v is not None}
        line = error_line(ScalewallError("Its worker died each time: killed, or out of memory."))
        self.rows.append(make_row(self.core, index, unread_hash(self.core, given), given, {}, line))
        self._count(line)

    # What is written ---------------------------------------------------------------------------------

    def _flush(self, now: bool = False) -> None:
        due = time.monotonic() - self._flushed > _FLUSH_SECONDS or len(self.rows) >= _FLUSH_ROWS
        if not self.rows or not (due or now):
            return
        rows, self.rows = self.rows, []
        self.store.write(rows)
        self.written += len(rows)
        self._flushed = time.monotonic()
        self.tell(self.written)
