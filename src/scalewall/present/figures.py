"""Answers as Plotly figures: one set for terminal, notebook and page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from scalewall.present.figures_canvas import canvas, dress
from scalewall.present.tables import WIDTH
from scalewall.study import closed_form
from scalewall.study.limits import Curve, Limits
from scalewall.study.points import Point
from scalewall.study.uncertainty import Spread
from scalewall.units import YEAR, show

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which colour-blind readers can tell apart."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
"""Strokes of lines, a new one each time the colours are used up."""

AXES = {
    "dp": ("data", "solid", "circle"),
    "tp": ("tensor", "dash", "square"),
    "pp": ("pipeline", "dot", "diamond"),
    "ep": ("expert", "dashdot", "triangle-up"),
}


def limits_figure(answer: Limits) -> Any:
    """Return MFU against training compute for every device, over how each kind of parallelism scales.

    The knee is marked by a ring and a line, the wall by a cross and a line; the closed form of the
    wall by a dotted line. Hovering shows the strategy and what binds.
    """
    figure = canvas()
    alone = len(answer.curves) == 1
    for i, curve in enumerate(answer.curves):
        if curve.spread is not None:
            _add_spread(figure, curve.spread, PALETTE[i % len(PALETTE)], places=(i, len(answer.curves)))
        add_curve(figure, curve, i, alone)
    _add_closed_form(figure, answer)
    dress(figure, [curve.sustained_mfu for curve in answer.curves], _title(answer), answer.draws is not None)
    return figure


def add_curve(figure: Any, curve: Curve, place: int, alone: bool, limits: bool = True) -> None:
    """Draw a curve in the colour of its place; without its `limits` where they are not known yet."""
    colour = PALETTE[place % len(PALETTE)]
    name = _legend(curve) if limits else f"{curve.hardware}<br><sup>being refined</sup>"
    _add_utilisation(figure, curve, colour, place // len(PALETTE), name)
    if limits:
        _add_limits(figure, curve, colour, labelled=alone)
    _add_degrees(figure, curve, colour, alone)


def _title(answer: Limits) -> str:
    s = answer.scenario
    what = f"Limits of training at scale: runs of at most {show(s.duration, 's')}"
    laws = f"batch {s.scaling.batch.text}, depth {s.scaling.depth.text}, {s.scaling.sparsity.text} sparsity"
    if s.scaling.sparsity.text == "dense":
        laws = f"dense models, batch {s.scaling.batch.text}, depth {s.scaling.depth.text}"
    laws += f", {s.preset}" if s.preset else ""
    if answer.draws is not None:
        names = [name for name in s.uncertain if name != "correlation"]
        few = ", ".join(names) if len(names) <= 5 else f"{len(names)} inputs"
        laws += f"<br>band and bars: {WIDTH} of {answer.draws.samples} draws of {few}"
    return f"{what}<br><sup>{laws}</sup>"


def _add_utilisation(figure: Any, curve: Curve, colour: str, round_: int, name: str) -> None:
    import plotly.graph_objects as go

    figure.add_trace(
        go.Scatter(
            x=[p.training_flop for p in curve.points],
            y=[p.mfu for p in curve.points],
            name=name,
            legendgroup=curve.hardware,
            mode="lines+markers",
            line={"color": colour, "width": 2.5, "dash": DASHES[round_ % len(DASHES)]},
            marker={"size": 5},
            text=[hover(curve, p) for p in curve.points],
            hovertemplate="%{text}<extra></extra>",
        ),
        row=1,
        col=1,
    )


def shade(colour: str, share: float = 0.2) -> str:
    """Return a colour of `PALETTE` as a veil of it."""
    return f"rgba({','.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))},{share:g})"


def band_trace(spread: Spread, colour: str) -> Any:
    """Return the band of MFU between the outer quantiles of a spread."""
    import plotly.graph_objects as go

    low, _, high = spread.band().tolist()
    x = list(spread.computes)
    return go.Scatter(
        x=x + x[::-1],
        y=high + low[::-1],
        mode="lines",
        fill="toself",
        fillcolor=shade(colour),
        line={"width": 0},
        hoverinfo="skip",
        name=f"{spread.cluster.name}, {WIDTH}",
        legendgroup=spread.cluster.name,
    )


def _add_spread(figure: Any, spread: Spread, colour: str, places: tuple[int, int]) -> None:
    """Draw the band of MFU, its median, and the intervals of knee and wall as bars below the axis' zero.

    `places` is which of how many devices this is, so that bars do not lie on each other.
    """
    import plotly.graph_objects as go

    name = spread.cluster.name
    figure.add_trace(band_trace(spread, colour), row=1, col=1)
    figure.add_trace(
        go.Scatter(
            x=list(spread.computes),
            y=spread.band()[1].tolist(),
            mode="lines",
            line={"color": colour, "width": 1.5, "dash": "dot"},
            name=f"{name}, median",
            legendgroup=name,
            hovertemplate="median: MFU %{y:.1%} at %{x:.3g} FLOP<extra></extra>",
        ),
        row=1,
        col=1,
    )
    for kind, symbol in (("knee", "circle-open"), ("wall", "x")):
        low, middle, high = spread.interval(f"{kind}_flop")
        height = -0.03 - 0.035 * (2 * places[0] + (kind == "wall"))
        figure.add_trace(
            go.Scatter(
                x=[low, middle, high],
                y=[height] * 3,
                mode="lines+markers",
                line={"color": colour, "width": 2},
                marker={
                    "symbol": ["line-ns", symbol, "line-ns"],
                    "size": 9,
                    "color": colour,
                    "line": {"width": 2, "color": colour},
                },
                showlegend=False,
                legendgroup=name,
                hovertemplate=f"{name}, {kind}: median {power(middle)}, {WIDTH} "
                f"{power(low)} to {power(high)}<extra></extra>",
            ),
            row=1,
            col=1,
        )


def _add_limits(figure: Any, curve: Curve, colour: str, labelled: bool) -> None:
    """Mark a curve's knee and wall, with labels where no other device's could collide with them."""
    import plotly.graph_objects as go

    marks = [("wall", curve.wall_flop, 0.0, "x", curve.wall_binding)]
    if curve.knee_flop is not None:
        marks.append(("knee", curve.knee_flop, curve.threshold_mfu, "circle-open", str(curve.knee_binding)))
    for kind, flop, mfu, symbol, binds in marks:
        figure.add_trace(
            go.Scatter(
                x=[flop],
                y=[mfu],
                mode="markers",
                marker={"symbol": symbol, "size": 12, "color": colour, "line": {"width": 3, "color": colour}},
                showlegend=False,
                legendgroup=curve.hardware,
                hovertemplate=f"{curve.hardware}: {kind} at {flop:.3g} FLOP<br>{binds} binds<extra></extra>",
                cliponaxis=False,
            ),
            row=1,
            col=1,
        )
        if not labelled:
            continue
        figure.add_annotation(
            x=math.log10(flop),
            y=mfu,
            text=f"{kind} {power(flop)}",
            font={"color": colour, "size": 13},
            ax=-46 if kind == "knee" else 14,
            ay=34 if kind == "knee" else -58,
            arrowcolor=colour,
            arrowwidth=1,
            showarrow=True,
            xanchor="right" if kind == "knee" else "center",
            row=1,
            col=1,
        )


def _add_degrees(figure: Any, curve: Curve, colour: str, alone: bool) -> None:
    import plotly.graph_objects as go

    degrees = {
        "dp": [p.strategy.dp for p in curve.points],
        "tp": [p.strategy.tp_model * p.strategy.tp_ff for p in curve.points],
        "pp": [p.strategy.pp for p in curve.points],
        "ep": [p.strategy.ep for p in curve.points],
    }
    for i, (axis, values) in enumerate(degrees.items()):
        if axis == "ep" and max(values) == 1:
            continue
        word, dash, symbol = AXES[axis]
        shade = PALETTE[(i + 1) % len(PALETTE)] if alone else colour
        figure.add_trace(
            go.Scatter(
                x=[p.training_flop for p in curve.points],
                y=values,
                name=word if alone else f"{curve.hardware}, {word}",
                legendgroup="degrees" if alone else curve.hardware,
                mode="lines+markers",
                line={"color": shade, "width": 1.8, "dash": dash, "shape": "hv"},
                marker={"symbol": symbol, "size": 5},
                text=[hover(curve, p) for p in curve.points],
                hovertemplate="%{text}<extra></extra>",
            ),
            row=2,
            col=1,
        )


def _add_closed_form(figure: Any, answer: Limits) -> None:
    """Draw the closed form of the latency wall at its own values of latency, depth and batch."""
    wall = closed_form.wall(duration=answer.scenario.duration)
    figure.add_vline(x=wall.training_flop, line={"color": "#888", "dash": "dot", "width": 1.5}, row=1, col=1)
    figure.add_annotation(
        x=math.log10(wall.training_flop),
        y=1.0,
        yref="y domain",
        text=f"closed form {power(wall.training_flop)}",
        showarrow=False,
        font={"color": "#666", "size": 12},
        xanchor="right",
        xshift=-4,
        row=1,
        col=1,
    )


def hover(curve: Curve, point: Point) -> str:
    """Return what hovering over a point says: the run, its strategy, and where a step's time goes."""
    s = point.strategy
    causes = sorted(point.seconds_by_cause.items(), key=lambda item: -item[1])
    shares = [
        f"{cause.replace('_', ' ')} {time / point.step_seconds:.1%}"
        for cause, time in causes
        if time > 0.0005 * point.step_seconds
    ]
    tiers = ", ".join(
        f"{axis} {'·'.join(map(str, degrees))}"
        for axis, degrees in s.layout.items()
        if math.prod(degrees) > 1
    )
    lines = [
        f"<b>{curve.hardware}, {point.training_flop:.3g} FLOP</b>",
        f"MFU {point.mfu:.1%} on {s.devices:.4g} devices in {point.duration_s / (YEAR / 12):.2f} months",
        f"{point.workload.parameters:.3g} parameters, batch {point.workload.batch_tokens:.3g} tokens",
        f"{s.schedule}, {s.microbatches} micro-batches, {s.interleave} chunks a stage",
        f"degrees by tier, inner first: {tiers or 'one device'}",
        f"binds: {point.binding}",
        *_wrapped(shares),
    ]
    return "<br>".join(lines)


def _legend(curve: Curve) -> str:
    knee = f"knee {power(curve.knee_flop)}" if curve.knee_flop else "no knee"
    return f"{curve.hardware}<br><sup>{knee}, wall {power(curve.wall_flop)}</sup>"


def power(value: float) -> str:
    """Return a number as people write a training compute: ``2.1e28``."""
    return f"{value:.1e}".replace("e+", "e")


def _wrapped(parts: Sequence[str], a_line: int = 2) -> list[str]:
    return [", ".join(parts[i : i + a_line]) for i in range(0, len(parts), a_line)]
