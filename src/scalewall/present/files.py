"""Answers as files: Parquet or CSV with the scenario inside, figures as HTML or pictures."""

from __future__ import annotations

import importlib.util
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scalewall.errors import InputError, nearest
from scalewall.study import records
from scalewall.study.limits import Limits

TABLES = (".parquet", ".csv")
PICTURES = (".png", ".svg", ".pdf")
FIGURES = (".html", *PICTURES)
_PICTURE = "a .html file, unless kaleido and a browser are there (pip install 'scalewall[image]')"


def check_path(path: Path, field: str, endings: tuple[str, ...]) -> None:
    """Raise `InputError` unless a file can be written at `path`, before anything is computed for it."""
    if path.suffix not in endings:
        hint = nearest(path.suffix, endings) if path.suffix else ""
        must = f"a file name that ends in {', '.join(endings)}"
        raise InputError(field, must, str(path), hint if hint.startswith("Nearest") else "")
    if path.suffix in PICTURES and importlib.util.find_spec("kaleido") is None:
        raise InputError(field, _PICTURE, str(path))
    try:
        there = path.exists() or path.is_symlink()  # a link to a file yet to be made stays a link
        with path.open("ab"):  # the only sure test
            pass
        if not there:
            path.unlink()
    except OSError as error:
        must = (
            "a file in a folder that exists" if not _is_folder(path.parent) else "a file that can be written"
        )
        raise InputError(field, must, str(path), f"{error.strerror}.") from None
    except ValueError:  # a zero byte, or what no file's name can hold
        raise InputError(field, "a file name", str(path)) from None


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def write_limits(answer: Limits, path: Path) -> None:
    """Write every point of every curve to `path`, with the scenario.

    Parquet keeps it under the key ``scalewall`` of its metadata; CSV in a first line that begins with ``#``.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    write_rows(records.rows(answer), about(answer), path)


def write_rows(rows: list[dict[str, Any]], inside: dict[str, Any], path: Path) -> None:
    """Write rows to `path`, with the document `inside` that says what they are, as in `write_limits`.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    check_path(path, "output", TABLES)
    import polars as pl

    frame = pl.DataFrame(rows, infer_schema_length=None)
    text = records.as_json({"version": version("scalewall"), **inside})
    try:
        if path.suffix == ".parquet":
            frame.write_parquet(path, metadata={"scalewall": text})
        else:
            path.write_text(f"# {text}\n{frame.write_csv()}", encoding="utf-8")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError("output", "a file that can be written", str(path), f"{error}.") from None


def about(answer: Limits) -> dict[str, Any]:
    """Return what a file says of itself: the version, the scenario and the limits by device."""
    limits = [
        {key: value for key, value in records.of_curve(curve).items() if key != "points"}
        for curve in answer.curves
    ]
    drawn = records.of_draws(answer)
    return {"version": version("scalewall"), "scenario": answer.scenario.as_dict(), **drawn, "limits": limits}


def read_document(path: Path) -> dict[str, Any]:
    """Return the document in a file that scalewall wrote: of ``--json``, or inside Parquet or CSV.

    Raises
    ------
    InputError
        If there is none.
    """
    must = "a file that scalewall wrote: .json, .parquet or .csv"
    try:
        if path.suffix == ".parquet":
            import polars as pl

            text = pl.read_parquet_metadata(path).get("scalewall", "")
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8") as file:
                text = file.readline().removeprefix("#")
        else:
            text = path.read_text(encoding="utf-8")
        document = json.loads(text)
    except OSError as error:
        raise InputError("file", must, str(path), f"{error.strerror or error}.") from None
    except Exception:  # what polars raises for a file that is not Parquet has no common name
        raise InputError("file", must, str(path)) from None
    if not isinstance(document, dict):
        raise InputError("file", must, str(path))
    return document


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
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError("figure", _PICTURE, str(path), reason) from None
