"""The folder of a sweep: Parquet parts and a manifest, written by one process so that nothing can tear.

- Every file is written under another name, flushed to the disk and renamed: it is there whole, or not.
- A part's name says which of the parts ever written it holds: ``part-SWEEP-00000003-00000007.parquet`` has
  what the third to the seventh had. A part within another's range is of no account, so small parts can be
  merged, and a merge that is killed between its rename and its removals loses and repeats nothing.
- A lock, which ends with the process that holds it, keeps a second writer out.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from scalewall.errors import InputError, ScalewallError
from scalewall.study.sweep_rows import Row

try:
    import fcntl
except ImportError:  # a system without these locks: one has to take care oneself
    fcntl = None  # type: ignore[assignment]

Array = Any

MANIFEST = "sweep.json"
MOST_ROWS = 1 << 16  # of a part that merging makes
_MERGED = 64  # parts of about a size that are merged into one
_NAME = re.compile(r"part-([0-9a-f]{8})-(\d{8,})-(\d{8,})\.parquet")
_TEMPORARY = ".writing-"
_HELD: set[str] = set()  # folders that this process writes: its locks do not keep itself out


@attrs.frozen(order=True)
class Part:
    """One file: which of the parts ever written it holds, the sweep whose rows they are, and where."""

    first: int
    last: int
    sweep: str
    path: Path = attrs.field(eq=False)


def parts_in(folder: Path) -> tuple[list[Part], list[Part]]:
    """Return the parts that count, in order, and those that a larger one holds."""
    found = []
    for path in folder.iterdir():
        if match := _NAME.fullmatch(path.name):
            found.append(Part(int(match[2]), int(match[3]), match[1], path))
    alive: list[Part] = []
    dead: list[Part] = []
    for part in sorted(found, key=lambda part: (part.first, -part.last)):
        inside = bool(alive) and part.last <= alive[-1].last
        (dead if inside else alive).append(part)
    return alive, dead


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what the folder's manifest says.

    Raises
    ------
    InputError
        If the folder holds no sweep.
    """
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not isinstance(found.get("sweeps"), list):
            raise ValueError("no list of sweeps")
    except OSError as error:
        raise InputError("folder", "the folder of a sweep", str(folder), f"{error.strerror}.") from None
    except ValueError as error:
        raise InputError(
            "folder", f"a sweep's folder, its {MANIFEST} whole", str(folder), f"{error}."
        ) from None
    return found


class Store:
    """The folder of a sweep, open for writing."""

    def __init__(self, folder: Path, columns: Mapping[str, str], sweep: str) -> None:
        self.folder, self.columns, self.sweep = folder, columns, sweep
        self.parts: list[Part] = []
        self.rows: dict[Path, int] = {}
        self._dead: list[Part] = []
        self._next = 0
        self._lock: int | None = None

    def open(self) -> None:
        """Make the folder if it is not there, lock it, and clear away what a killed process left.

        Raises
        ------
        InputError
            If nothing can be written there.
        ScalewallError
            If another sweep is writing there.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._take_lock()
        except OSError as error:
            must = "a folder that can be written"
            raise InputError("out", must, str(self.folder), f"{error.strerror}.") from None
        try:
            for path in self.folder.glob(f"{_TEMPORARY}*"):
                path.unlink()
            self.parts, dead = parts_in(self.folder)
            self._next = 1 + max((part.last for part in self.parts), default=-1)
            for part in dead:
                part.path.unlink()
            self._put(f"{_TEMPORARY}trial", b"")
            (self.folder / f"{_TEMPORARY}trial").unlink()
        except OSError as error:
            self.close()
            raise self._failed(error) from None

    def _take_lock(self) -> None:
        name = str(self.folder.resolve())
        if name in _HELD:
            raise ScalewallError(f"The folder '{self.folder}' is being written by another sweep.")
        lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if fcntl is not None:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise ScalewallError(f"The folder '{self.folder}' is being written by another sweep.") from None
        except OSError:
            os.close(lock)
            raise
        self._lock = lock
        _HELD.add(name)

    def close(self) -> None:
        """Let go of the folder."""
        if self._lock is not None:
            self._remove(self._dead)
            os.close(self._lock)
            self._lock = None
            _HELD.discard(str(self.folder.resolve()))

    # Writing -----------------------------------------------------------------------------------------

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest.

        Raises
        ------
        ScalewallError
            If it cannot be written.
        """
        self._put(MANIFEST, json.dumps(manifest, indent=1).encode())

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows as a new part; when this returns they are on the disk, whatever happens then.

        Raises
        ------
        ScalewallError
            If they cannot be written.
        """
        # Never the same number twice, even if this is interrupted after the rename.
        number, self._next = self._next, self._next + 1
        self._put_part(number, number, self._frame(rows))
        self._merge(_MERGED)

    def finish(self) -> None:
        """Leave as few parts as there can be, now that nothing will be added."""
        with contextlib.suppress(ScalewallError):  # on a full disk the small parts do as well
            self._merge(2)

    def _frame(self, rows: Sequence[Row]) -> Any:
        import polars as pl

        kinds: dict[str, Any] = {
            **{"int": pl.Int64, "float": pl.Float64, "text": pl.String, "bool": pl.Boolean},
            "floats": pl.List(pl.Float64),
        }
        schema = {name: kinds[kind] for name, kind in self.columns.items()}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _put_part(self, first: int, last: int, frame: Any) -> None:
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd")
        name = f"part-{self.sweep}-{first:08}-{last:08}.parquet"
        self._put(name, buffer.getbuffer())
        part = Part(first, last, self.sweep, self.folder / name)
        self.parts = [p for p in self.parts if not first <= p.first <= p.last <= last] + [part]
        self.parts.sort()
        self.rows[part.path] = frame.height

    def _put(self, name: str, content: bytes | memoryview) -> None:
        temporary = self.folder / f"{_TEMPORARY}{name}"
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(self.folder / name)
            self._sync_folder()
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise self._failed(error) from None

    def _sync_folder(self) -> None:
        if os.name != "posix":
            return
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _failed(self, error: OSError) -> ScalewallError:
        return ScalewallError(f"Nothing more can be written in '{self.folder}': {error.strerror or error}.")

    def _merge(self, least: int) -> None:
        """Merge the newest parts once they are `least` many or long enough, into less than `MOST_ROWS`."""
        import polars as pl

        own: list[Part] = []
        rows = 0
        for part in reversed(self.parts):
            height = self._height(part)
            if part.sweep != self.sweep or height >= MOST_ROWS // 2:
                break
            own.insert(0, part)
            rows += height
        if len(own) < 2 or (len(own) < least and rows < MOST_ROWS // 2):
            return
        frame = pl.concat([self._read(part) for part in own])
        self._put_part(own[0].first, own[-1].last, frame)
        for part in own:
            self.rows.pop(part.path, None)
        # Whoever reads may hold the names of the small parts: they go at the next merge, or in the end.
        self._remove(self._dead)
        self._dead = own

    def _remove(self, parts: Sequence[Part]) -> None:
        for part in parts:
            with contextlib.suppress(OSError):  # it is of no account
                part.path.unlink(missing_ok=True)

    def _height(self, part: Part) -> int:
        if part.path not in self.rows:
            self.rows[part.path] = self._read(part, ["index"]).height
        return self.rows[part.path]

    # Reading -----------------------------------------------------------------------------------------

    def done(self, size: int, sweep: str) -> tuple[Array, Array, int]:
        """Return which scenarios of the sweep have rows, the hashes of other sweeps' rows, and errors.

        Raises
        ------
        ScalewallError
            If a part cannot be read.
        """
        import polars as pl

        known = np.zeros(size, dtype=bool)
        others: list[Array] = []
        failed = 0
        for part in self.parts:
            frame = self._read(part, ["index", "hash", "sweep", "error"])
            own = frame.filter(pl.col("sweep") == sweep)
            known[own["index"].to_numpy()] = True
            failed += own.height - own["error"].null_count()
            other = frame.filter(pl.col("sweep") != sweep)["hash"].to_list()
            if other:
                others.append(np.array(other, dtype="S32"))
        return known, np.unique(np.concatenate(others)) if others else np.empty(0, dtype="S32"), failed

    def _read(self, part: Part, columns: list[str] | None = None) -> Any:
        import polars as pl

        try:
            return pl.read_parquet(part.path, columns=columns)
        except (OSError, pl.exceptions.PolarsError) as error:
            text = str(error).splitlines()[0]
            raise ScalewallError(
                f"The part '{part.path}' cannot be read ({text}). Move it away; its rows are computed again."
            ) from None


def in_blocks(missing: Array, block: int = 1 << 16) -> Iterator[Array]:
    """Yield the places where `missing` is true, a block at a time."""
    for start in range(0, len(missing), block):
        places = np.flatnonzero(missing[start : start + block])
        if len(places):
            yield places + start


def among(known: Array, hashes: Iterable[str]) -> list[bool]:
    """Return for each of `hashes` whether it is among `known`, which is sorted."""
    wanted = np.array(list(hashes), dtype="S32")
    places = np.searchsorted(known, wanted)
    return [bool(p < len(known) and known[p] == w) for p, w in zip(places, wanted, strict=True)]
