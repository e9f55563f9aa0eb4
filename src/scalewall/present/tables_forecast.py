"""A forecast as a table for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from scalewall.present.tables import WIDTH, show_table
from scalewall.study.forecast import Forecast, Meeting, day_of
from scalewall.study.notable import CREDIT
from scalewall.units import show


def show_forecast(console: Console, answer: Forecast) -> None:
    """Print the trend, and when the frontier meets each limit."""
    for line in _trend(answer):
        console.print(Text(line))
    console.print()
    show_table(console, meetings_table(answer))
    for line in _notes(answer):
        console.print(Text(line))


def meetings_table(answer: Forecast) -> Table:
    """Return when the frontier meets each limit, one row a limit."""
    table = Table(box=None, pad_edge=False)
    for name in ("hardware", "limit", "binds", "FLOP", "ahead", "date"):
        table.add_column(name, justify="right" if name in {"FLOP", "ahead"} else "left", no_wrap=True)
    with_interval = answer.growth_interval is not None
    if with_interval:
        table.add_column("for the interval of growth", no_wrap=True)
    uncertain = answer.limits.draws is not None
    if uncertain:
        for name in (f"FLOP, {WIDTH}", "median date", f"date, {WIDTH}"):
            table.add_column(name, no_wrap=True)
    for m in answer.meetings:
        if m.training_flop is None or m.year is None:
            nothing = [""] * (2 + with_interval)
            cells = [escape(m.hardware), m.kind, "", "none before the wall", *nothing]
            table.add_row(*cells, *(["", "", ""] if uncertain else []))
            continue
        cells = [escape(m.hardware), m.kind, m.binding or "", f"{m.training_flop:.2e}"]
        cells += [f"× {m.training_flop / answer.flop_today:.3g}", _when(m)]
        if m.interval is not None:
            cells.append(f"{_day(m.interval[0])} to {_day(m.interval[1])}")
        if m.flop_spread is not None and m.year_spread is not None:
            (low, _, high), (first, middle, last) = m.flop_spread, m.year_spread
            cells += [f"{low:.2e} to {high:.2e}", _day(middle), f"{_day(first)} to {_day(last)}"]
        table.add_row(*cells, style="dim" if m.passed else None)
    return table


def _trend(answer: Forecast) -> Iterator[str]:
    trend, largest = answer.trend, answer.largest
    low, high = trend.growth_interval
    last = max(model.date for model in answer.known)
    yield (
        f"Trend of {len(trend.models)} models since {trend.since}, each among the {trend.top} largest known "
        f"when published; the last model known is of {last}."
    )
    yield (
        f"  Growth: × {trend.growth:.2f} a year (95% interval {low:.2f} to {high:.2f}); models scatter about "
        f"the line by a factor of {10.0**trend.scatter:.2g}."
    )
    yield (
        f"  The line on {answer.today}: {trend.flop(answer.now):.2e} FLOP. Largest known run: "
        f"{largest.training_flop:.2e} FLOP, {largest.name} ({largest.date})."
    )
    source = {
        "trend": "the line's value",
        "largest": "the largest known run, grown since",
        "given": "as given",
    }
    rate = "the trend's" if answer.growth_interval is not None else "as given"
    yield (
        f"Frontier: {answer.flop_today:.2e} FLOP on {answer.today} ({source[answer.start_from]}), growing "
        f"× {answer.growth:.2f} a year ({rate})."
    )


def _notes(answer: Forecast) -> Iterator[str]:
    if (draws := answer.limits.draws) is not None:
        names = dict.fromkeys(
            some.name
            for curve in answer.limits.curves
            if curve.spread is not None
            for some in curve.spread.uncertainty.inputs
        )
        also = " and the trend's growth" if answer.growth_interval is not None else ""
        yield (
            f"{WIDTH}: of {', '.join(names)}{also}, {draws.samples} quasi-random draws of the limits, "
            f"seed {draws.seed}."
        )
    yield f"Limits of runs of at most {show(answer.limits.scenario.duration, 's')}."
    if any(m.passed for m in answer.meetings):
        yield "Passed: the frontier was there before today, by the same line."
    yield CREDIT if answer.is_shipped else f"Data: {answer.source}"


def _when(meeting: Meeting) -> str:
    year = meeting.year if meeting.year is not None else math.inf
    return f"{_day(year)}{' (passed)' if meeting.passed else ''}"


def _day(year: float) -> str:
    if math.isinf(year):
        return "never" if year > 0 else "long ago"
    day = day_of(year)
    return day.isoformat() if day else f"year {year:.3g}"
