"""Claims and sources as tables for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scalewall.study.citations import Citation
from scalewall.study.claims import VERDICTS, Checked

_STYLES = dict(zip(VERDICTS, ("green", "red", "yellow", "dim"), strict=True))


def show_claims(console: Console, checked: Sequence[Checked]) -> None:
    """Print every claim beside our own figure, with what to know of both, and how many agree."""
    console.print(claims_table(checked))
    console.print(Text(verdicts(checked)))


def verdicts(checked: Sequence[Checked]) -> str:
    """Return how many claims have each verdict."""
    counts = Counter(one.verdict for one in checked)
    return " ".join(f"{verdict.capitalize()}: {counts[verdict]}." for verdict in VERDICTS if counts[verdict])


def claims_table(checked: Sequence[Checked]) -> Table:
    """Return claims as a table, one a row."""
    table = Table(box=None, pad_edge=False)
    for name in ("id", "source", "claimed", "computed", "unit", "verdict", "note"):
        right = name in {"claimed", "computed"}
        table.add_column(name, justify="right" if right else "left", no_wrap=name == "id", overflow="fold")
    for one in checked:
        claim = one.claim
        table.add_row(
            claim.id,
            claim.source,
            numbers(claim.claimed) or "in words",
            numbers(one.computed or ()) or "none",
            claim.unit,
            Text(one.verdict, style=_STYLES[one.verdict]),
            one.note,
        )
    return table


def numbers(values: Sequence[float]) -> str:
    """Return figures as text: small whole numbers as they are, others to four digits, large ones to three."""
    return "; ".join(_number(value) for value in values)


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    coefficient, _, exponent = f"{value:.2e}".partition("e")
    return f"{float(coefficient):g}e{int(exponent)}"


def show_citations(console: Console, found: Sequence[Citation], whose: str = "") -> None:
    """Print `whose` sources they are, then each in a line, and below it what of the answer rests on it."""
    if whose:
        console.print(Text(f"Sources of {whose}\n"))
    for citation in found:
        console.print(Text(citation.text, style="bold" if citation.bibtex else ""))
        for what in citation.used_for:
            console.print(Text(f"  {what}"))
