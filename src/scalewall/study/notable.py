"""Models whose training compute is known: reads the table that ships with scalewall, or one like it."""

from __future__ import annotations

import csv
import datetime
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import attrs

from scalewall.errors import InputError, nearest

SHIPPED = Path(str(files("scalewall"))) / "data" / "notable_models.csv"
CREDIT = "Data: Epoch AI, CC BY 4.0"
COLLECTION = "notable"

_HEADINGS: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "Model", "System"),
    "publication_date": ("publication_date", "Publication date"),
    "training_compute_flop": ("training_compute_flop", "Training compute (FLOP)"),
    "organization": ("organization", "Organization"),
    "domain": ("domain", "Domain"),
    "confidence": ("confidence", "Confidence"),
    "link": ("link", "Link"),
}
"""Columns that are used, and how they may be headed: as here, or as Epoch AI's own download heads them."""
_NEEDED = ("name", "publication_date", "training_compute_flop")


@attrs.frozen(kw_only=True)
class Model:
    """A model whose training compute (FLOP) and publication date are known."""

    name: str
    date: datetime.date
    training_flop: float
    organization: str = ""
    domain: str = ""
    confidence: str = ""
    link: str = ""


def read_models(path: Path = SHIPPED) -> tuple[Model, ...]:
    """Return the models of a CSV file that have both a date and a training compute.

    Where the file has a column ``dataset``, only its ``notable`` rows count: rows gathered because they are
    large would bend a trend.

    Raises
    ------
    InputError
        If the file cannot be read, lacks a column, has a date or number that is none, or no row is left.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.DictReader(file)
            headings = _headings(lines.fieldnames or (), path)
            return _models(lines, headings, path)
    except OSError as error:
        raise InputError("models", "a readable CSV file", str(path), f"{error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError("models", "a valid CSV file", str(path), f"{error}.") from None


def _headings(names: Sequence[str], path: Path) -> dict[str, str]:
    headings = {
        column: next(name for name in known if name in names)
        for column, known in _HEADINGS.items()
        if set(known) & set(names)
    }
    for column in _NEEDED:
        if column not in headings:
            hint = f"{path.name} has none. {nearest(column, names) if names else ''}"
            raise InputError("models", f"a CSV file with a column {column}", str(path), hint.rstrip())
    return headings


def _models(lines: csv.DictReader[str], headings: Mapping[str, str], path: Path) -> tuple[Model, ...]:
    models = []
    for line in lines:
        if line.get("dataset") not in (None, COLLECTION):
            continue
        cells = {column: (line.get(heading) or "").strip() for column, heading in headings.items()}
        if not cells["publication_date"] or not cells["training_compute_flop"]:
            continue  # unknown
        where = f"models, line {lines.line_num}"
        date = _date(cells.pop("publication_date"), where)
        flop = _flop(cells.pop("training_compute_flop"), where)
        models.append(Model(date=date, training_flop=flop, **cells))
    if not models:
        must = "a CSV file with at least one row that has a date and a training compute"
        raise InputError("models", must, str(path))
    return tuple(models)


def _date(text: str, where: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{where}, publication_date", "a date such as 2026-07-15", text) from None


def _flop(text: str, where: str) -> float:
    try:
        flop = float(text)
    except ValueError:
        flop = math.nan
    if not 0.0 < flop < math.inf:
        raise InputError(f"{where}, training_compute_flop", "a positive number of FLOP", text)
    return flop
