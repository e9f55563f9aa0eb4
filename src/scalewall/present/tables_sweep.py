"""What a sweep did, or would do, as lines for a terminal and as plain values."""

from __future__ import annotations

from typing import Any

import attrs
from rich.console import Console
from rich.text import Text

from scalewall.study.sweep import Estimate, Swept
from scalewall.units import show

_MOST_ERRORS = 5


def of_swept(answer: Swept) -> dict[str, Any]:
    """Return the document of `scalewall sweep`."""
    return {**attrs.asdict(answer), "folder": str(answer.folder), "errors": dict(answer.errors)}


def show_swept(console: Console, answer: Swept) -> None:
    """Print what a run of a sweep did."""
    lines = [
        f"{answer.scenarios:,} rows in '{answer.folder}': {answer.computed:,} computed in"
        f" {duration(answer.seconds)}, {answer.before:,} there before."
    ]
    if answer.failed:
        lines.append(f"{answer.failed:,} of them have no answer; the column 'error' says why.")
        worst = sorted(answer.errors.items(), key=lambda item: -item[1])[:_MOST_ERRORS]
        lines += [f"  {times:,} × {line}" for line, times in worst]
    lines.append(f"scalewall.open_sweep({str(answer.folder)!r}) reads them; sweep-figure draws them.")
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def duration(seconds: float) -> str:
    """Return a time as one waits for it: seconds, minutes, hours or days, never with an exponent."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2.0 * size:
            return (
                f"{seconds / size:.1f} {unit}" if seconds < 20.0 * size else f"{seconds / size:,.0f} {unit}"
            )
    return f"{seconds:.0f} s" if seconds >= 2.0 else f"{seconds:.1f} s"


def of_estimate(found: Estimate) -> dict[str, Any]:
    """Return the document of `scalewall sweep --dry-run`."""
    return {**attrs.asdict(found), "seconds": found.seconds}


def show_estimate(console: Console, found: Estimate) -> None:
    """Print how many scenarios there are, and how long they would take."""
    there = found.scenarios - found.missing
    rows = f", of which {there:,} are there" if there else ""
    console.print(Text(f"{found.scenarios:,} scenarios{rows}."))
    if found.missing:
        workers = f"{found.workers} process{'es' if found.workers > 1 else ''}"
        each = show(found.seconds_each, "s", 2)
        total = duration(found.seconds)
        console.print(Text(f"About {total} on {workers}: {each} each, by {found.timed} that were timed."))
