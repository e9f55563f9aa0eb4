"""Training compute over time as a figure: what was trained, the frontier's trend, and the limits it meets."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from typing import Any

from scalewall.present.drawn import MARGIN, Drawn, Row, finish
from scalewall.present.figures import PALETTE, power, shade
from scalewall.present.tables import WIDTH
from scalewall.study import forecast as forecasts
from scalewall.study.notable import CREDIT
from scalewall.study.uncertainty import SHARES
from scalewall.units import show

_LABEL_GAP = 17.0  # pixels between the labels of lines
_ENDS = [f"{share:.0%}" for share in SHARES]
_SAME = 0.02  # powers of ten within which limits are drawn as one line


def over_time(answer: forecasts.Forecast) -> Drawn:
    """Return models' training compute over time, the frontier's trend, and the limits that it meets."""
    rows = over_time_rows(answer)
    title = "Training compute of notable models, and the limits of hardware"
    return Drawn(
        name="compute-over-time",
        title=title,
        figure=_over_time_figure(rows, answer, title),
        rows=rows,
        about={
            "credit": credit(answer),
            "today": answer.today.isoformat(),
            "growth_per_year": answer.growth,
            "growth_interval": answer.growth_interval,
            "scenario": answer.limits.scenario.as_dict(),
        },
    )


def credit(answer: forecasts.Forecast) -> str:
    """Return whom the models' data are owed to."""
    return CREDIT if answer.is_shipped else f"Data: {answer.source}"


def over_time_rows(answer: forecasts.Forecast) -> list[Row]:
    """Return what the figure over time shows: models, the trend, what follows from it, and the limits."""
    trend = answer.trend
    of_trend = set(trend.models)
    first = forecasts.decimal_year(trend.models[0].date)
    rows = [
        _time_row(
            "frontier model" if model in of_trend else "other model",
            model.date,
            model.training_flop,
            name=model.name,
            organization=model.organization,
        )
        for model in answer.known
        if model.date.year >= trend.since
    ]
    now = forecasts.decimal_year(answer.today)
    rows += [_time_row("trend", forecasts.day_of(year), trend.flop(year)) for year in (first, now)]
    end = _last_year(answer, now)
    rates = {"projection": answer.growth}
    if answer.growth_interval is not None:
        rates |= {"slowest": answer.growth_interval[0], "fastest": answer.growth_interval[1]}
    start, flop = answer.start
    for series, rate in rates.items():
        ends = ((start, flop), (end, flop * rate ** (end - start)))
        rows += [_time_row(series, forecasts.day_of(year), value) for year, value in ends]
    for meeting in answer.meetings:
        if meeting.training_flop is not None:
            met = None if meeting.year is None else forecasts.day_of(meeting.year)
            rows.append(_time_row(meeting.kind, met, meeting.training_flop, hardware=meeting.hardware))
            rows += _spread_rows(meeting)
    return rows


def _spread_rows(meeting: forecasts.Meeting) -> Iterator[Row]:
    """Yield the ends of a meeting's intervals where inputs are uncertain: of its limit, and of its date."""
    if meeting.flop_spread is None or meeting.year_spread is None:
        return
    for end, flop, year in zip(_ENDS, meeting.flop_spread, meeting.year_spread, strict=True):
        day = forecasts.day_of(year)
        yield _time_row(f"{meeting.kind}, {end}", day, flop, hardware=meeting.hardware)


def _time_row(series: str, day: datetime.date | None, flop: float, **more: str) -> Row:
    date = day.isoformat() if day else None
    blank = {"name": None, "organization": None, "hardware": None}
    return {"series": series, "date": date, "training_flop": flop, **blank, **more}


def _last_year(answer: forecasts.Forecast, now: float) -> float:
    """Return where the figure ends: past the last meeting, but not too far off."""
    years = [m.year for m in answer.meetings if m.year is not None]
    years += [m.year_spread[-1] for m in answer.meetings if m.year_spread is not None]
    return min(max([now + 2.0, *(year + 1.5 for year in years)]), now + 20.0)


def _over_time_figure(rows: Sequence[Row], answer: forecasts.Forecast, title: str) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    _add_band(figure, rows)
    _add_models(figure, rows, answer)
    limits = {*("knee", "wall", "projection"), f"wall, {_ENDS[-1]}"}
    top = max(row["training_flop"] for row in rows if row["series"] in limits)
    least = min(row["training_flop"] for row in rows)
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(top) + 0.2)
    height = 740
    plot = height - MARGIN["t"] - MARGIN["b"]
    _add_intervals(figure, rows)
    _add_limit_lines(figure, rows, plot / (high - low))
    what = f"runs of at most {show(answer.limits.scenario.duration, 's')}; as of {answer.today.isoformat()}"
    finish(figure, title, what, f"{credit(answer)}. Trend and limits: scalewall.", height, {"r": 285})
    ends = [row["date"] for row in rows if row["series"] == "projection"]
    figure.update_xaxes(title_text="publication date", range=[f"{answer.trend.since}-01-01", ends[-1]])
    figure.update_yaxes(
        title_text="training compute (FLOP)",
        type="log",
        range=[low, high],
        dtick=2,
        exponentformat="power",
    )
    # The corner that is empty: late, and with little compute.
    figure.update_layout(legend={"x": 0.99, "xanchor": "right", "y": 0.02, "yanchor": "bottom"})
    return figure


def _add_models(figure: Any, rows: Sequence[Row], answer: forecasts.Forecast) -> None:
    """Draw the models, the trend, and what follows from it."""
    trend = answer.trend
    names = {
        "other model": "other notable models",
        "frontier model": f"the {trend.top} largest when published",
        "trend": f"their trend: × {trend.growth:.2f} a year",
        "projection": f"carried on at × {answer.growth:.2f} a year",
    }
    looks = {
        "other model": {"mode": "markers", "marker": {"symbol": "circle-open", "size": 6, "color": "#999"}},
        "frontier model": {"mode": "markers", "marker": {"symbol": "circle", "size": 6, "color": "#222"}},
        "trend": {"mode": "lines", "line": {"color": "#222", "width": 2.5}},
        "projection": {"mode": "lines", "line": {"color": "#222", "width": 2, "dash": "dash"}},
    }
    for series, look in looks.items():
        own = [row for row in rows if row["series"] == series]
        figure.add_scatter(
            x=[row["date"] for row in own],
            y=[row["training_flop"] for row in own],
            name=names[series],
            text=[row["name"] for row in own],
            hovertemplate="%{text}<br>%{x}<br>%{y:.2e} FLOP<extra></extra>" if "model" in series else None,
            **look,
        )


def _add_band(figure: Any, rows: Sequence[Row]) -> None:
    """Shade what lies between the slowest and the fastest growth of the interval."""
    slow, fast = ([r for r in rows if r["series"] == series] for series in ("slowest", "fastest"))
    around = [*slow, *reversed(fast)]
    if around:
        figure.add_scatter(
            x=[row["date"] for row in around],
            y=[row["training_flop"] for row in around],
            fill="toself",
            mode="lines",
            line={"width": 0},
            fillcolor="rgba(0,0,0,0.13)",
            name="95% interval of the growth",
            hoverinfo="skip",
        )


def _add_limit_lines(figure: Any, rows: Sequence[Row], decade: float) -> None:
    """Draw each limit as a line with a mark where the frontier meets it; `decade` is its height in pixels."""
    found = [row for row in rows if row["series"] in {"knee", "wall"}]
    devices = list(dict.fromkeys(row["hardware"] for row in found))
    lines = _together(found)
    heights = [math.log10(line[0]["training_flop"]) for line in lines]
    places = spread([height * decade for height in heights], _LABEL_GAP)
    for line, height, place in zip(lines, heights, places, strict=True):
        kind, date, flop = line[0]["series"], line[0]["date"], line[0]["training_flop"]
        shared = len(line) > 1
        colour = "#555" if shared else PALETTE[devices.index(line[0]["hardware"]) % len(PALETTE)]
        everyone = shared and len(line) == len(devices)
        whose = "every device" if everyone else ", ".join(row["hardware"] for row in line)
        when = datetime.date.fromisoformat(date).strftime("%b %Y") if date else "not met"
        dash = "dot" if kind == "knee" else "dashdot"
        figure.add_hline(y=flop, line={"color": colour, "width": 2, "dash": dash}, layer="below")
        figure.add_annotation(
            x=1.0,
            xref="paper",
            y=height,
            ax=14,
            ay=height * decade - place,
            xanchor="left",
            align="left",
            text=f"{kind}, {whose}: {power(flop)}, {when}",
            font={"color": colour, "size": 12},
            arrowhead=0,
            arrowcolor=colour,
            arrowwidth=1,
        )
        symbol = "circle-open" if kind == "knee" else "x"
        figure.add_scatter(
            x=[date],
            y=[flop],
            mode="markers",
            showlegend=False,
            name=f"{kind}, {whose}",
            marker={"symbol": symbol, "size": 10, "color": colour, "line": {"width": 2, "color": colour}},
            hovertemplate=f"{whose}<br>{kind} {flop:.3g} FLOP<br>%{{x}}<extra></extra>",
        )


def _add_intervals(figure: Any, rows: Sequence[Row]) -> None:
    """Draw where inputs are uncertain how far each limit and its date reach: as a bar up and one across.

    Where a single device is shown, bands of its limits lie across the figure besides.
    """
    devices = list(dict.fromkeys(row["hardware"] for row in rows if row["series"] in {"knee", "wall"}))
    named = False
    for i, name in enumerate(devices):
        colour = PALETTE[i % len(PALETTE)]
        for kind in ("knee", "wall"):
            low, middle, high = (
                next((r for r in rows if (r["series"], r["hardware"]) == (f"{kind}, {end}", name)), None)
                for end in _ENDS
            )
            if low is None or middle is None or high is None:
                continue
            if len(devices) == 1:
                ends = {"y0": low["training_flop"], "y1": high["training_flop"]}
                figure.add_hrect(**ends, fillcolor=shade(colour, 0.14), line_width=0, layer="below")
            across = [row["date"] for row in (low, middle, high)], [middle["training_flop"]] * 3
            upward = [middle["date"]] * 3, [row["training_flop"] for row in (low, middle, high)]
            for x, y in (across, upward):
                figure.add_scatter(
                    x=x,
                    y=y,
                    mode="lines",
                    line={"color": colour, "width": 4},
                    opacity=0.5,
                    name=f"{WIDTH}, through the medians",
                    showlegend=not named,
                    hovertemplate=f"{name}, {kind}, {WIDTH}<br>%{{x}}<br>%{{y:.2e}} FLOP<extra></extra>",
                )
                named = True


def _together(found: Sequence[Row]) -> list[list[Row]]:
    """Return limits by kind and size, those that are as good as the same in one list."""
    lines: list[list[Row]] = []
    for row in sorted(found, key=lambda row: (row["series"], row["training_flop"])):
        last = lines[-1][0] if lines else None
        same = last is not None and last["series"] == row["series"]
        if last is not None and same and math.log10(row["training_flop"] / last["training_flop"]) < _SAME:
            lines[-1].append(row)
        else:
            lines.append([row])
    return lines


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Return `places` moved apart, as little as may be, so that any two are at least `gap` apart.

    Neighbours that come too close are put around the middle of where they belong, group by group.
    """
    order = sorted(range(len(places)), key=places.__getitem__)
    groups: list[tuple[list[int], float]] = []  # members from below, and their middle
    for i in order:
        members, middle = [i], places[i]
        while groups and groups[-1][1] + gap * (len(groups[-1][0]) + len(members)) / 2.0 > middle:
            members = groups.pop()[0] + members
            middle = sum(places[j] for j in members) / len(members)
        groups.append((members, middle))
    moved = [0.0] * len(places)
    for members, middle in groups:
        for k, j in enumerate(members):
            moved[j] = middle + gap * (k - (len(members) - 1) / 2.0)
    return moved
