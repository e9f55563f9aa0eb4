"""A command's table as plain texts, which go from one process to another and become a table of the page."""

from __future__ import annotations

from typing import Any

import attrs
from rich.table import Table
from rich.text import Text


@attrs.frozen(kw_only=True)
class Plain:
    """A table of texts: heads, which columns are numbers, and rows."""

    caption: str
    heads: tuple[str, ...]
    right: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


def text_of(cell: Any) -> str:
    """Return what a cell of a terminal's table says."""
    return cell.plain if isinstance(cell, Text) else str(cell)


def plain(table: Table, caption: str = "") -> Plain:
    """Return the texts of a table of the terminal."""
    columns = [[text_of(cell) for cell in column.cells] for column in table.columns]
    return Plain(
        caption=caption or text_of(table.title or ""),
        heads=tuple(text_of(column.header) for column in table.columns),
        right=tuple(column.justify == "right" for column in table.columns),
        rows=tuple(zip(*columns, strict=True)),
    )
