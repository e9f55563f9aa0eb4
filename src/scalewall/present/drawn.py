"""A figure with the rows it is made of, so that what is drawn can be read: as a picture and as tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from scalewall.errors import InputError
from scalewall.present import files
from scalewall.study.records import as_json

Row = dict[str, Any]

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "pentagon", "star", "hexagon")
MARGIN = {"l": 75, "r": 60, "t": 90, "b": 100}
_GRID = "#e5e5e5"
_FONT = {"family": "Helvetica, Arial, DejaVu Sans, sans-serif", "size": 14}


@attrs.frozen(kw_only=True)
class Drawn:
    """A figure with the rows it is made of; `about` says what was asked, for its files."""

    name: str
    title: str
    figure: Any
    rows: list[Row]
    about: dict[str, Any]


def finish(
    figure: Any, title: str, what: str, credit: str, height: int, margin: Mapping[str, int] | None = None
) -> None:
    """Give a figure its title, a line that says what it shows, its credit, its size and its looks."""
    figure.update_layout(
        title={"text": f"{title}<br><sup>{what}</sup>", "x": 0.02, "xanchor": "left"},
        template="simple_white",
        font=_FONT,
        width=1050,
        height=height,
        margin={**MARGIN, **(margin or {})},
        hoverlabel={"align": "left"},
    )
    figure.update_xaxes(showgrid=True, gridcolor=_GRID)
    figure.update_yaxes(showgrid=True, gridcolor=_GRID)
    figure.add_annotation(
        text=credit,
        xref="paper",
        yref="paper",
        x=1.0,
        y=0.0,
        yshift=-85,  # below the title of the axis
        showarrow=False,
        xanchor="right",
        font={"size": 11, "color": "#555"},
    )


def write_drawn(drawn: Drawn, folder: Path) -> tuple[list[Path], str | None]:
    """Write a figure to `folder` as HTML and PNG, and its rows as CSV and JSON, under its name.

    Files of the same names are replaced.

    Returns
    -------
    tuple
        The files written, and why there is no PNG, if there is none.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    paths = [folder / f"{drawn.name}{ending}" for ending in (".html", ".csv", ".json")]
    files.write_figure(drawn.figure, paths[0])
    files.write_rows(drawn.rows, {"title": drawn.title, **drawn.about}, paths[1])
    document = {"title": drawn.title, **drawn.about, "rows": drawn.rows}
    picture, missing = folder / f"{drawn.name}.png", None
    files.check_path(paths[2], "folder", (".json",))
    paths[2].write_text(as_json(document, indent=1), encoding="utf-8")
    try:
        files.write_figure(drawn.figure, picture)
        paths.append(picture)
    except InputError as error:  # the folder can be written to, so kaleido or its browser is not there
        missing = f"No {picture.name}: a picture needs kaleido and a browser. {error.hint}".rstrip()
    return paths, missing


def make_folder(folder: Path) -> None:
    """Make `folder` unless it is there.

    Raises
    ------
    InputError
        If it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        must = "a folder, or the path of one that can be made"
        raise InputError("folder", must, str(folder), f"{error.strerror}.") from None
    if not os.access(folder, os.W_OK):
        raise InputError("folder", "a folder that can be written to", str(folder))
