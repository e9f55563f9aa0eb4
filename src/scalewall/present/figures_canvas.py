"""What the figures of limits stand on: two plots over one axis of compute, and their looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

GRID = "#e5e5e5"


def canvas() -> Any:
    """Return an empty figure: utilisation over how each kind of parallelism scales."""
    from plotly.subplots import make_subplots

    return make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.09,
        row_heights=[0.58, 0.42],
        subplot_titles=("Best utilisation", "How it is parallelised"),
    )


def dress(figure: Any, sustained: Sequence[float], title: str, drawn: bool = False) -> None:
    """Give the figure its axes, its title and its looks.

    Parameters
    ----------
    sustained
        The most utilisation of each curve.
    drawn
        Whether inputs are uncertain: then the title has a line more, and below zero there is room for bars.
    """
    figure.add_annotation(
        x=0.0,
        y=0.0,
        xref="x domain",
        yref="y domain",
        text="○ knee   ✕ wall",
        showarrow=False,
        font={"color": "#666", "size": 12},
        xanchor="left",
        yanchor="bottom",
        xshift=6,
        yshift=4,
        row=1,
        col=1,
    )
    _set_axes(figure, sustained, drawn)
    placed: dict[str, Any] = {"text": title, "x": 0.02, "xanchor": "left"}
    figure.update_layout(
        title=placed | ({"y": 0.97, "yanchor": "top"} if drawn else {}),
        template="simple_white",
        width=1000,
        height=820,
        hoverlabel={"align": "left", "font": {"size": 12}},
        legend={"orientation": "v", "x": 1.01, "y": 1.0, "tracegroupgap": 12},
        margin={"l": 70, "r": 215, "t": 130 if drawn else 90, "b": 60},
        font={"family": "Helvetica, Arial, DejaVu Sans, sans-serif", "size": 14},
    )


def _set_axes(figure: Any, sustained: Sequence[float], drawn: bool) -> None:
    top = 1.12 * max(sustained, default=1.0)
    figure.update_xaxes(type="log", exponentformat="power", dtick=1, showgrid=True, gridcolor=GRID)
    figure.update_xaxes(title_text="training compute (FLOP)", row=2, col=1)
    figure.update_yaxes(title_text="MFU", tickformat=".0%", range=[0, top], row=1, col=1, gridcolor=GRID)
    if drawn:  # one bar a device and limit
        least = -0.035 * (2 * len(sustained) + 1)
        figure.update_yaxes(
            range=[least, top], tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1], zeroline=True, row=1, col=1
        )
    figure.update_yaxes(
        title_text="degree", type="log", dtick=1, exponentformat="power", row=2, col=1, gridcolor=GRID
    )
