"""The spread of the limits as a Plotly figure."""

from __future__ import annotations

from typing import Any

from scalewall.present.figures import PALETTE, band_trace, power
from scalewall.present.tables import WIDTH
from scalewall.study.uncertainty import Answer, Spread


def uncertainty_figure(answer: Answer) -> Any:
    """Return MFU against training compute with its 5-95% band, over the intervals of knee and wall."""
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.08,
        row_heights=[0.7, 0.3],
        subplot_titles=("Best utilisation", "Where the knee (ring) and the wall (cross) are"),
    )
    for i, spread in enumerate(answer.spreads):
        _add_band(figure, spread, PALETTE[i % len(PALETTE)])
        _add_intervals(figure, spread, PALETTE[i % len(PALETTE)])
    grid = {"showgrid": True, "gridcolor": "#e5e5e5"}
    figure.update_xaxes(type="log", exponentformat="power", dtick=1, **grid)
    figure.update_xaxes(title_text="training compute (FLOP)", row=2, col=1)
    figure.update_yaxes(title_text="MFU", tickformat=".0%", rangemode="tozero", row=1, col=1, **grid)
    figure.update_yaxes(type="category", row=2, col=1)
    draws = len(answer.spreads[0].outcomes)
    title = f"How sure the limits are<br><sup>median and {WIDTH} of {draws} draws, seed {answer.seed}</sup>"
    figure.update_layout(
        title={"text": title, "x": 0.02, "xanchor": "left"},
        template="simple_white",
        width=1000,
        height=700,
        margin={"l": 110, "r": 40, "t": 90, "b": 60},
        legend={"x": 0.02, "y": 0.45, "bgcolor": "rgba(255,255,255,0.7)"},
        font={"family": "Helvetica, Arial, DejaVu Sans, sans-serif", "size": 14},
    )
    return figure


def _add_band(figure: Any, spread: Spread, colour: str) -> None:
    import plotly.graph_objects as go

    middle, x, name = spread.band()[1].tolist(), list(spread.computes), spread.cluster.name
    figure.add_trace(band_trace(spread, colour), row=1, col=1)
    for values, dash, word in (
        (middle, "solid", "median"),
        (list(spread.baseline.mfu), "dot", "baseline"),
    ):
        figure.add_trace(
            go.Scatter(
                x=x,
                y=values,
                mode="lines+markers",
                line={"color": colour, "width": 2.5 if dash == "solid" else 1.5, "dash": dash},
                marker={"size": 4},
                name=f"{name}, {word}",
                legendgroup=name,
                hovertemplate=f"{word}: MFU %{{y:.1%}} at %{{x:.3g}} FLOP<extra></extra>",
            ),
            row=1,
            col=1,
        )


def _add_intervals(figure: Any, spread: Spread, colour: str) -> None:
    import plotly.graph_objects as go

    name = spread.cluster.name
    for limit, field, symbol in (("knee", "knee_flop", "circle-open"), ("wall", "wall_flop", "x")):
        low, middle, high = spread.interval(field)
        said = f"{limit}: median {power(middle)}, {power(low)} to {power(high)}"
        said += f"<br>baseline {power(getattr(spread.baseline, field))}"
        figure.add_trace(
            go.Scatter(
                x=[middle],
                y=[f"{limit}<br><sup>{name}</sup>"],
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": [high - middle],
                    "arrayminus": [middle - low],
                    "color": colour,
                    "thickness": 2.5,
                },
                mode="markers",
                marker={"symbol": symbol, "size": 12, "color": colour, "line": {"width": 3, "color": colour}},
                showlegend=False,
                legendgroup=name,
                hovertemplate=f"{said}<extra></extra>",
            ),
            row=2,
            col=1,
        )
