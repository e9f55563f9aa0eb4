"""Answers as files: Parquet or CSV with the scenario inside, figures as HTML or pictures."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scalewall.errors import InputError, nearest
from scalewall.study import records
from scalewall.study.limits import Limits

TABLES = (".parquet", ".csv")
FIGURES = (".html", ".png", ".svg", ".pdf")


def check_path(path: Path, field: str, endings: tuple[str, ...]) -> None:
    """Raise `InputError` unless a file can be written at `path`, before anything is computed for it."""
    if path.suffix not in endings:
        hint = nearest(path.suffix, endings) if path.suffix else ""
        raise InputError(field, f"a file name that ends in {', '.join(endings)}", str(path), hint)
    folder = path.parent
    if not folder.is_dir():
        raise InputError(field, "a file in a folder that exists", str(path))
    target = path if path.exists() else folder
    if path.is_dir() or not os.access(target, os.W_OK):
        raise InputError(field, "a file that can be written", str(path))


def write_limits(answer: Limits, path: Path) -> None:
    """Write every point of every curve to `path`, with the scenario.

    Parquet keeps it under the key ``scalewall`` of its metadata; CSV in a first line that begins with ``#``.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    check_path(path, "output", TABLES)
    import polars as pl

    frame = pl.DataFrame(records.rows(answer), infer_schema_length=None)
    inside = json.dumps(about(answer))
    try:
        if path.suffix == ".parquet":
            frame.write_parquet(path, metadata={"scalewall": inside})
        else:
            path.write_text(f"# {inside}\n{frame.write_csv()}", encoding="utf-8")
    except OSError as error:
        raise InputError("output", "a file that can be written", str(path), f"{error.strerror}.") from None


def about(answer: Limits) -> dict[str, Any]:
    """Return what a file says of itself: the version, the scenario and the limits by device."""
    limits = [
        {key: value for key, value in records.of_curve(curve).items() if key != "points"}
        for curve in answer.curves
    ]
    return {"version": version("scalewall"), "scenario": answer.scenario.as_dict(), "limits": limits}


def write_figure(figure: Any, path: Path) -> None:
    """Write a Plotly figure to `path`: HTML that needs no network, or a picture if kaleido is installed.

    Raises
    ------
    InputError
        If the file cannot be written, or kaleido is missing.
    """
    check_path(path, "figure", FIGURES)
    try:
        if path.suffix == ".html":
            figure.write_html(path, include_plotlyjs=True, full_html=True)
        else:
            figure.write_image(path, scale=2)
    except OSError as error:
        raise InputError("figure", "a file that can be written", str(path), f"{error.strerror}.") from None
    except (ImportError, ValueError, RuntimeError) as error:
        must = "a .html file, unless kaleido and a browser are there (pip install 'scalewall[image]')"
        raise InputError("figure", must, str(path), str(error).split("\n")[0]) from None
