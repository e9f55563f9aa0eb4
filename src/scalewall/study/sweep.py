"""Sweeps: many scenarios, answered by whatever workers there are, into a folder that loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from scalewall.errors import InputError, NoAnswer, ScalewallError
from scalewall.schema import whole
from scalewall.study.sweep_design import Design, canonical, digest
from scalewall.study.sweep_driver import Driver, Progress
from scalewall.study.sweep_pools import MOST_WORKERS, Dask, Pool, Processes, default_workers
from scalewall.study.sweep_read import read_sweep
from scalewall.study.sweep_rows import Core, FileChanged, made_by, released, row, scenario_hash
from scalewall.study.sweep_store import MANIFEST, Store, among, in_blocks, parts_in, read_manifest

Source = str | Path | Mapping[str, Any]
Array = Any

_FORMAT = 1
_TIMED, _TIMED_SECONDS = 5, 20.0  # scenarios that a dry run tries, and after how long it tries no more


class Stopped(KeyboardInterrupt):
    """Somebody stopped the sweep; the text says how far it came."""


@attrs.frozen(kw_only=True)
class Swept:
    """What a run of a sweep did.

    Attributes
    ----------
    folder
        Where the rows are.
    scenarios, before, computed
        How many there are, had rows before, and were computed now.
    failed, errors
        Rows with an error, of all, and the errors of this run with how often each came.
    seconds, worker_seconds
        What the run took, and how long workers worked in it, all together.
    sweep, version, seed
        The sweep's name in rows, the version, and the sample's seed.
    """

    folder: Path
    scenarios: int
    before: int
    computed: int
    failed: int
    errors: Mapping[str, int]
    seconds: float
    worker_seconds: float
    sweep: str
    version: str
    seed: int | None


@attrs.frozen(kw_only=True)
class Estimate:
    """How long a sweep would take: `timed` scenarios took `seconds_each`, `missing` are to be done."""

    scenarios: int
    missing: int
    timed: int
    seconds_each: float
    workers: int

    @property
    def seconds(self) -> float:
        """Seconds that the workers would take together."""
        return self.missing * self.seconds_each / self.workers


def sweep(
    source: Source,
    out: str | Path,
    *,
    executor: Executor | None = None,
    workers: int | str | None = None,
    scheduler: str | None = None,
    mix: bool = False,
    progress: Progress | None = None,
) -> Swept:
    """Answer every scenario of a sweep that has no row yet in the folder `out`.

    Parameters
    ----------
    source
        A TOML file, or a table of the same form: ``ask``, ``scenario``, and ``grid``, ``list`` or ``sample``.
    out
        The folder; it is made if it is not there. Rows that are in it already are not computed again.
    executor
        Any `concurrent.futures.Executor`; it is left open. Processes of this machine if None.
    workers
        How many processes, or how many workers `executor` has if it does not say.
    scheduler
        Address of a Dask scheduler, or ``local:N``, in place of an executor.
    mix
        Go on where the folder holds rows of another file or version: those whose scenarios are the same
        count, the others stay beside the new ones.
    progress
        Called with how many rows are written, of how many.

    Raises
    ------
    InputError
        If the sweep is wrong, or the folder cannot be written or holds another one.
    NoAnswer
        If every scenario failed; their rows say why.
    ScalewallError
        If the disk is full or the workers are gone; the same call goes on from there.
    """
    design = read_sweep(source)
    if scheduler is not None and (executor is not None or workers is not None):
        raise InputError("workers", "left out beside a scheduler, which has its own", workers)
    count = None if workers is None else whole(workers, "workers", 1, MOST_WORKERS)
    name = identity(design)
    core = Core.of(design, name)
    store = Store(Path(out), core.columns, name)
    store.open()
    try:
        _check_manifest(store, design, name, mix)
        tell = progress or (lambda done, total, what: None)
        return _fill(design, core, store, lambda: _pool(executor, count, scheduler), tell)
    finally:
        store.close()


def _fill(
    design: Design,
    core: Core,
    store: Store,
    workers: Callable[[], AbstractContextManager[Pool]],
    tell: Progress,
) -> Swept:
    """Answer what has no row yet, and return what was done."""
    begin = time.monotonic()
    known, others, failed = store.done(design.size, core.sweep)
    if len(others):
        _mark_same(design, core, known, others)
    before = int(known.sum())
    tell(before, design.size, store.folder.name)
    written, busy = 0, 0.0
    errors: Mapping[str, int] = {}
    if before < design.size:
        tasks = design.scenarios(in_blocks(~known))
        with workers() as pool:
            driver = Driver(
                core, tasks, store, pool, lambda n: tell(before + n, design.size, store.folder.name)
            )
            _run(driver, design.size, before, store.folder)
        store.finish()
        written, busy, errors = driver.written, driver.busy, dict(driver.errors)
        failed += driver.failed
    if failed >= design.size:
        reason = next(iter(errors), "their rows say why")
        raise NoAnswer(f"Not one of the {design.size:,} scenarios has an answer; the first: {reason}")
    return Swept(
        folder=store.folder,
        scenarios=design.size,
        before=before,
        computed=written,
        failed=failed,
        errors=errors,
        seconds=time.monotonic() - begin,
        worker_seconds=busy,
        sweep=core.sweep,
        version=released(),
        seed=design.seed,
    )


def _run(driver: Driver, size: int, before: int, folder: Path) -> None:
    """Run, and say how far it came if it does not come to its end."""
    try:
        driver.run()
    except KeyboardInterrupt:
        raise Stopped(f"Stopped. {_so_far(before + driver.written, size, folder)}") from None
    except FileChanged as error:
        rows = f"{before + driver.written:,} of {size:,} rows are in '{folder}'"
        raise ScalewallError(f"{error} {rows}; with --mix a sweep of the new file can join them.") from None
    except ScalewallError as error:
        raise ScalewallError(f"{error} {_so_far(before + driver.written, size, folder)}") from None


def _so_far(rows: int, size: int, folder: Path) -> str:
    return f"{rows:,} of {size:,} rows are in '{folder}'; the same command goes on from there."


@contextmanager
def _pool(executor: Executor | None, workers: int | None, scheduler: str | None) -> Iterator[Pool]:
    pool: Pool
    if scheduler is not None:
        pool = Dask(scheduler)
    elif executor is not None:
        pool = Pool(executor, workers)
    else:
        pool = Processes(workers or default_workers())
    ended = False
    try:
        yield pool
        ended = True
    finally:
        pool.close(now=not ended)


# Which sweep it is -----------------------------------------------------------------------------------


def identity(design: Design) -> str:
    """Return a sweep's name in rows and files: of its content, the version and the code."""
    return digest({"content": design.content(), "made_by": made_by()})[:8]


def _entry(design: Design, name: str) -> dict[str, Any]:
    return {
        "sweep": name,
        "made_by": made_by(),
        "scenarios": design.size,
        "seed": design.seed,
        "shape": list(design.shape),
        "columns": design.columns(),
        "content": design.content(),
    }


def _check_manifest(store: Store, design: Design, name: str, mix: bool) -> None:
    """Write what the folder holds, once it is clear that it holds nothing else, or may.

    Raises
    ------
    InputError
        If it holds another sweep, or something else.
    """
    folder = store.folder
    if not (folder / MANIFEST).exists():
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            raise InputError("out", "a folder that is empty or a sweep's own", str(folder))
        store.write_manifest({"format": _FORMAT, "sweeps": [_entry(design, name)]})
        return
    manifest = read_manifest(folder)
    sweeps = manifest["sweeps"]
    if any(entry.get("sweep") == name for entry in sweeps):
        return
    if not mix:
        changed = _difference(sweeps[-1] if sweeps else {}, design)
        hint = f"Changed since: {changed}; with --mix both are kept."
        raise InputError("out", "the folder of this very sweep", str(folder), hint)
    store.write_manifest({**manifest, "sweeps": [*sweeps, _entry(design, name)]})


def _difference(old: Mapping[str, Any], design: Design) -> str:
    """Return in words what is not as it was."""
    content, before = design.content(), old.get("content", {})
    parts = [part for part in content if canonical(content[part]) != canonical(before.get(part))]
    parts += [part for part in before if part not in content]
    if parts:
        words = {"files": "content of a file that scenarios use"}
        return f"the sweep's {', '.join(words.get(part, part) for part in parts)}"
    was, now = str(old.get("made_by", "unknown")).split(" ")[0], released()
    return f"the version ({was} then, {now} now)" if was != now else "the code of scalewall"


def _mark_same(design: Design, core: Core, known: Array, others: Array) -> None:
    """Mark as known the scenarios that rows of other sweeps have by their hashes."""
    for numbers in in_blocks(~known, 4096):
        found = [scenario_hash(core, values) for _, values in design.scenarios([numbers])]
        known[numbers[np.array(among(others, found))]] = True


def estimate(source: Source, out: str | Path | None = None, workers: int | str | None = None) -> Estimate:
    """Return how many scenarios a sweep has, how many are missing in `out`, and how long it would take.

    A few scenarios from all over the sweep are answered for it, in this process, and nothing is written.
    """
    design = read_sweep(source)
    count = default_workers() if workers is None else whole(workers, "workers", 1, MOST_WORKERS)
    name = identity(design)
    core = Core.of(design, name)
    known = np.zeros(design.size, dtype=bool)
    folder = None if out is None else Path(out)
    if folder is not None and (folder / MANIFEST).exists():
        store = Store(folder, core.columns, name)
        store.parts = parts_in(folder)[0]
        known = store.done(design.size, name)[0]
    places = np.flatnonzero(~known)
    chosen = (
        places[np.unique(np.linspace(0, max(0, len(places) - 1), _TIMED).astype(int))]
        if len(places)
        else places
    )
    tasks = list(design.scenarios([chosen]))
    begin, timed = time.perf_counter(), 0
    for at, (index, values) in enumerate(tasks[:1] + tasks):  # the first time warms up
        if at == 1:
            begin = time.perf_counter()
        row(core, index, values)
        timed = max(1, at)
        if time.perf_counter() - begin > _TIMED_SECONDS:
            break
    each = (time.perf_counter() - begin) / max(1, timed)
    return Estimate(scenarios=design.size, missing=len(places), timed=timed, seconds_each=each, workers=count)
