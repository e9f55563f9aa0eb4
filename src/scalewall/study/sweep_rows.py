"""What a worker does: scenarios in, rows out. Nothing here knows of folders or of other workers."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from scalewall.errors import ScalewallError, shown
from scalewall.study.sweep_asks import ASKS
from scalewall.study.sweep_design import TABLES, Design, Values, canonical, digest
from scalewall.study.sweep_read import file_digest

Row = tuple[Any, ...]
_MOST_INT = 2**63 - 1
_MOST_ERROR = 1000  # characters


class FileChanged(ScalewallError):
    """A file that scenarios use is no longer what it was when the sweep began."""


@attrs.frozen(kw_only=True)
class Core:
    """What a worker must know of a sweep: small, as it goes along with every batch of scenarios."""

    ask: str
    base: Mapping[str, Any]
    files: Mapping[str, tuple[str, str]]
    names: tuple[str, ...]
    columns: Mapping[str, str]
    answers: Mapping[str, str]
    seed: int | None
    sweep: str

    @classmethod
    def of(cls, design: Design, sweep: str) -> Core:
        """Return what a worker must know of `design`; `sweep` names it in rows."""
        return cls(
            ask=design.ask,
            base=design.base,
            files=design.files,
            names=design.names,
            columns=design.columns(),
            answers={column: name for name, column in design.answers().items()},
            seed=design.seed,
            sweep=sweep,
        )


@attrs.frozen(kw_only=True)
class Done:
    """What comes back: rows in the order of the scenarios, as far as the time went, and who made them."""

    rows: list[Row]
    seconds: float
    made_by: str


@functools.cache
def released() -> str:
    """Return the version of scalewall."""
    return version("scalewall")


@functools.cache
def made_by() -> str:
    """Return the version, and a digest of all code and data from which answers follow."""
    root, found = Path(str(files("scalewall"))), hashlib.sha256()
    for path in sorted(root.rglob("*")):
        room = path.relative_to(root).parts[0]
        if path.suffix in (".py", ".toml") and room not in ("present", "cli", "web", "__init__.py"):
            found.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return f"{released()} {found.hexdigest()[:16]}"


def work(core: Core, scenarios: Sequence[tuple[int, Values]], budget: float) -> Done:
    """Return the rows of the first of `scenarios`: at least one, and no new one after `budget` seconds.

    Raises
    ------
    FileChanged
        If a file that scenarios use has changed since the sweep began.
    """
    _check_files(core)
    begin = time.perf_counter()
    rows: list[Row] = []
    for index, values in scenarios:
        rows.append(row(core, index, values))
        if time.perf_counter() - begin > budget:
            break
    _check_files(core)
    return Done(rows=rows, seconds=time.perf_counter() - begin, made_by=made_by())


def _check_files(core: Core) -> None:
    for name, (path, content) in core.files.items():
        if file_digest(path) != content:
            raise FileChanged(f"The file '{name}' is no longer what it was when the sweep began.")


def row(core: Core, index: int, values: Values) -> Row:
    """Return one scenario's row; whatever goes wrong with it is a line in the row."""
    given = {name: v for name, v in zip(core.names, values, strict=True) if v is not None}
    answer: Mapping[str, Any] = {}
    key, error = None, None
    try:
        with np.errstate(all="ignore"):  # absurd inputs overflow on the way; what comes out is checked
            said, prepared = ASKS[core.ask].read(*split(core, given))
            key = _hash(core, said)
            given = {**given, **{n: v for n, v in said["changes"].items() if n in given}}
            answer = ASKS[core.ask].answer(*prepared)
    except Exception as found:  # a scenario must not end a sweep
        error = error_line(found)
    return make_row(core, index, key or unread_hash(core, given), given, answer, error)


def split(core: Core, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a scenario as the words of its question and the numbers of its device to change."""
    own = ASKS[core.ask].words
    words: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for name, value in {**core.base, **given}.items():
        if name in own or name in TABLES:
            words[name] = _path(core, value)
        else:
            changes[name] = value
    return words, changes


def _path(core: Core, value: Any) -> Any:
    if isinstance(value, str) and value in core.files:
        return core.files[value][0]
    return [_path(core, inner) for inner in value] if isinstance(value, list) else value


def make_row(
    core: Core,
    index: int,
    key: str,
    given: Mapping[str, Any],
    answer: Mapping[str, Any],
    error: str | None,
) -> Row:
    """Return a row in the order of the columns."""
    own = {
        **{"index": index, "hash": key, "error": error, "seed": core.seed, "sweep": core.sweep},
        "version": released(),
    }
    cells = []
    for column, kind in core.columns.items():
        if column in own:
            value = own[column]
        elif column in core.answers:
            value = answer.get(core.answers[column])
        else:
            value = given.get(column)
        cells.append(_cell(value, kind))
    return tuple(cells)


def _cell(value: Any, kind: str) -> Any:
    if value is None or kind == "floats":
        return value
    if kind == "float":
        return float(value) if isinstance(value, (int, float)) else None
    if kind == "int":
        return int(value) if isinstance(value, (int, float)) and abs(value) <= _MOST_INT else None
    if kind == "bool":
        return bool(value)
    return value if isinstance(value, str) else canonical(value)


def error_line(error: BaseException) -> str:
    """Return an error as one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, ScalewallError):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= _MOST_ERROR else text[: _MOST_ERROR - 1] + "…"


# Hashes ----------------------------------------------------------------------------------------------


def _hash(core: Core, said: Mapping[str, Any]) -> str:
    """Return the hash of a scenario: canonical JSON in SI, files by their content, and the version."""
    named = {path: content for path, content in core.files.values()}

    def by_content(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): by_content(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [by_content(inner) for inner in value]
        return f"file {named[value]}" if isinstance(value, str) and value in named else value

    plain = by_content(said) if named else said
    return digest({"version": released(), "ask": core.ask, **plain})


def unread_hash(core: Core, given: Mapping[str, Any]) -> str:
    """Return the hash of a scenario that cannot be read: of its words as written, and the version."""
    files = {name: content for name, (_, content) in core.files.items() if name in given.values()}
    words = {name: shown(value, 10_000) for name, value in {**core.base, **given}.items()}
    return digest({"version": released(), "ask": core.ask, "words": words, "files": files})


def scenario_hash(core: Core, values: Values) -> str:
    """Return the hash that a scenario's row has, without answering it."""
    given = {name: v for name, v in zip(core.names, values, strict=True) if v is not None}
    try:
        return _hash(core, ASKS[core.ask].read(*split(core, given))[0])
    except Exception:  # as in `row`
        return unread_hash(core, given)
