"""The table of measured runs: which columns it has, how its cells are read, and the copy that ships."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from scalewall.errors import InputError, shown

NEEDED = ("device", "n_gpus", "tp", "pp", "seq_len", "global_batch_size", "n_layers", "d_model", "n_heads")
COUNTS = (
    *(name for name in NEEDED if name != "device"),
    *("gpus_per_node", "dp", "cp", "virtual_pp", "micro_batch_size", "n_kv_heads", "d_ff", "vocab"),
)
MOST_AMOUNT = {"n_params": math.inf, "measured_value": 1e12, "step_time_s": 1e7}
"""The amounts of a row, and how large each may be."""

LEAST_AMOUNT = 1e-9
"""No amount is smaller."""

AMOUNTS = tuple(MOST_AMOUNT)
MOST, MOST_LAYERS = 10**9, 10_000
"""No count of a row is larger, and no model deeper."""

SHIPPED = Path(str(files("scalewall"))) / "data" / "runs.csv.gz"
"""The project's own table of runs; ``data/README.md`` says where it comes from."""


class Skipped(Exception):
    """A row that is not simulated, and why."""


def read_table(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a CSV file of runs, also of one that gzip has packed.

    Numbers are read where a column holds numbers; a cell that is none stays the text that it is.

    Raises
    ------
    InputError
        If the file cannot be read, is no CSV, lacks a column, or has no rows.
    """
    must, own = "a CSV file of runs", str(path)
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("runs", must, own, "It is not UTF-8 text.") from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "It cannot be unpacked"
        raise InputError("runs", f"{must} that can be read", own, f"{reason}.") from None
    if not text.strip() or "\0" in text:
        raise InputError("runs", must, own, "It is no text." if text.strip() else "It is empty.")
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""))
        rows: list[dict[str, Any]] = list(reader)
    except csv.Error as error:
        raise InputError("runs", must, own, f"{error}.") from None
    missing = [name for name in ("id", *NEEDED) if name not in (reader.fieldnames or ())]
    if not {"step_time_s", "measured_value"} & set(reader.fieldnames or ()):
        missing.append("step_time_s")
    if missing:
        raise InputError("runs", f"{must} with the columns {', '.join(missing)}", own)
    if not rows:
        raise InputError("runs", f"{must} with at least one row", own)
    cells = [{name: _cell(name, value) for name, value in row.items() if name} for row in rows]
    return [{**row, "id": row["id"] or f"row {number}"} for number, row in enumerate(cells, 1)]


def _cell(name: str, value: str | None) -> str | float | None:
    """Return what a cell says: a number where its column holds numbers, else its text, None if empty."""
    text = (value or "").strip()
    if name not in (*COUNTS, *AMOUNTS) or not text:
        return text or None
    try:
        return float(text)
    except ValueError:
        return text


def check_numbers(row: Mapping[str, Any]) -> None:
    """Raise `Skipped` if one of a row's numbers is none, or cannot be."""
    for name in (*COUNTS, *AMOUNTS):
        value = row.get(name)
        if value in (None, ""):
            continue
        good = isinstance(value, (int, float)) and math.isfinite(value) and value > 0
        if name in COUNTS:
            most = MOST_LAYERS if name == "n_layers" else MOST
            if not good or value % 1 or value > most:
                raise Skipped(f"its {name} is {_told(value)}, not a whole number from 1 to {most:,}")
        elif not good or not LEAST_AMOUNT <= value <= MOST_AMOUNT[name]:
            limit = f" from {LEAST_AMOUNT:g} to {MOST_AMOUNT[name]:g}" if good else " above 0"
            raise Skipped(f"its {name} is {_told(value)}, not a number{limit}")
    chunks = row["pp"] * (row.get("virtual_pp") or 1)
    # Embedding and head may count as a layer each.
    if row["n_layers"] < chunks and (row["n_layers"] + 2) % chunks:
        raise Skipped(f"has {row['n_layers']:g} layers for {chunks:g} chunks of a pipeline")
    if row["n_heads"] % row["tp"]:
        raise Skipped(f"its tp of {row['tp']:g} does not divide {row['n_heads']:g} heads")


def _told(value: object) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else shown(value, 40)
