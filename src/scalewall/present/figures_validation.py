"""Predicted against measured step times as a Plotly figure."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from scalewall.present.drawn import SYMBOLS, finish
from scalewall.present.figures import PALETTE
from scalewall.present.tables_validation import open_points
from scalewall.study.records_plan import credit
from scalewall.study.validation import Compared, Validation
from scalewall.units import show

BAND = 0.1
ERRORS = (-0.6, 0.9)
"""Errors beyond these stand at the edge."""


def validation_figure(answer: Validation) -> Any:
    """Return every run's predicted step time against its measured one, over its error, by source.

    The line is where both are the same, the band where they differ by at most a tenth.
    """
    from plotly.subplots import make_subplots

    summary = answer.summary
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.05, row_heights=[0.7, 0.3])
    times = [t for row in answer.rows for t in (row.measured_step_time_s, row.predicted_step_time_s)]
    low, high = (0.8 * min(times), 1.25 * max(times)) if times else (1.0, 10.0)
    _add_band(figure, low, high)
    # The sources with most runs have colours of their own, and lie below the others.
    sources = sorted(summary.by_source, key=lambda source: -summary.by_source[source]["n"])
    for i, source in enumerate(sources):
        _add_source(figure, answer, source, i)
    what = f"{summary.n} runs. The band is ±{BAND:.0%}."
    if summary.median_abs_error is not None:
        what = (
            f"{summary.n} runs; absolute error: median {summary.median_abs_error:.1%}, 90th percentile "
            f"{summary.p90_abs_error:.1%}. The band is ±{BAND:.0%}."
        )
    title = "Step times, predicted against measured"
    finish(figure, title, what, "scalewall validate", 900, {"r": 230, "b": 105})
    ticks = {"type": "log", "dtick": 1, "tickformat": "~g"}
    reach = [math.log10(low), math.log10(high)]
    figure.update_xaxes(range=reach, **ticks)
    figure.update_xaxes(title_text="measured (seconds a step)", row=2, col=1)
    figure.update_yaxes(title_text="predicted (seconds a step)", range=reach, **ticks, row=1, col=1)
    figure.update_yaxes(title_text="error", tickformat="+.0%", range=list(ERRORS), row=2, col=1)
    figure.update_layout(
        legend={"x": 1.01, "y": 1.0, "font": {"size": 13}, "title": {"text": "source: median error, runs"}}
    )
    if said := credit(answer.rows):
        _add_credit(figure, said)
    return figure


def _add_source(figure: Any, answer: Validation, source: str, number: int) -> None:
    import plotly.graph_objects as go

    rows = [row for row in answer.rows if row.source == source]
    group = answer.summary.by_source[source]
    errors = [min(max(row.error, ERRORS[0]), ERRORS[1]) for row in rows]
    for line, values in ((1, [row.predicted_step_time_s for row in rows]), (2, errors)):
        figure.add_trace(
            go.Scatter(
                x=[row.measured_step_time_s for row in rows],
                y=values,
                name=f"{source}: {group['median_abs_error']:.1%}, {len(rows)}",
                legendgroup=source,
                showlegend=line == 1,
                mode="markers",
                marker={
                    "color": PALETTE[number % len(PALETTE)],
                    "symbol": SYMBOLS[number // len(PALETTE) % len(SYMBOLS)],
                    "size": 8 if line == 1 else 6,
                    "opacity": 0.75,
                    "line": {"width": 0.5, "color": "white"},
                },
                text=[hover(row) for row in rows],
                hovertemplate="%{text}<extra></extra>",
                cliponaxis=False,
            ),
            row=line,
            col=1,
        )


def _add_band(figure: Any, low: float, high: float) -> None:
    import plotly.graph_objects as go

    ends = [low, high]
    parts = {1: [[(1 + off) * end for end in ends] for off in (BAND, -BAND, 0.0)]}
    parts[2] = [[off, off] for off in (BAND, -BAND, 0.0)]
    for line, (upper, lower, middle) in parts.items():
        band = go.Scatter(
            x=[*ends, *reversed(ends)],
            y=[*upper, *reversed(lower)],
            fill="toself",
            fillcolor="#e4e4e4",
            line={"width": 0},
            mode="lines",
            hoverinfo="skip",
            showlegend=False,
        )
        same = go.Scatter(
            x=ends,
            y=middle,
            mode="lines",
            line={"color": "#777", "width": 1},
            hoverinfo="skip",
            showlegend=False,
        )
        figure.add_trace(band, row=line, col=1)
        figure.add_trace(same, row=line, col=1)


def _add_credit(figure: Any, said: str) -> None:
    figure.add_annotation(
        text="<br>".join(textwrap.wrap(said, 36)),
        xref="paper",
        yref="paper",
        x=1.02,
        y=0.0,
        xanchor="left",
        yanchor="bottom",
        align="left",
        showarrow=False,
        font={"size": 11, "color": "#555"},
    )


def hover(row: Compared) -> str:
    """Return what hovering over a run says: what it is, both times, where they go, what was left open."""
    causes = sorted(row.seconds_by_cause.items(), key=lambda pair: -pair[1])[:4]
    shares = [f"{name.replace('_', ' ')} {s / row.predicted_step_time_s:.0%}" for name, s in causes]
    lines = [
        f"<b>{row.id}</b> {row.model}, {row.devices:,} {row.device}, {row.precision}, {row.software}",
        f"measured {show(row.measured_step_time_s, 's')}, predicted {show(row.predicted_step_time_s, 's')}:"
        f" {row.error:+.1%}",
        ", ".join(shares),
        *([open_points(row)] if open_points(row) else []),
    ]
    return "<br>".join(lines)
