"""Elasticities as a Plotly figure."""

from __future__ import annotations

from typing import Any

from scalewall.present.figures import PALETTE, power
from scalewall.study.sensitivity import Elasticity, Sensitivities
from scalewall.units import show

TITLES = {"knee": "Knee", "wall": "Wall", "mfu": "MFU"}
_NO_BAR = 0.005  # an elasticity that would be drawn as nothing


def tornado_figure(answer: Sensitivities) -> Any:
    """Return bars of every elasticity, the largest on top: a row a device, a column an output.

    Bars are central differences, lines their standard errors; where a side stands apart, a triangle marks
    the difference upward and one that points down the difference downward. Inputs that change nothing
    are left out.
    """
    from plotly.subplots import make_subplots

    outputs = list(dict.fromkeys(e.output for found in answer.devices for e in found.elasticities))
    titles = [f"{TITLES[output]} of {found.cluster.name}" for found in answer.devices for output in outputs]
    figure = make_subplots(
        rows=len(answer.devices), cols=len(outputs), subplot_titles=titles, horizontal_spacing=0.13
    )
    for row, found in enumerate(answer.devices, start=1):
        for col, output in enumerate(outputs, start=1):
            shown = [e for e in found.elasticities if e.output == output and abs(e.elasticity or 0) > _NO_BAR]
            _add_bars(figure, shown, row, col)
    figure.update_xaxes(zeroline=True, zerolinecolor="#444", gridcolor="#e5e5e5", showgrid=True)
    figure.update_yaxes(autorange="reversed", ticks="")
    figure.update_layout(
        title={"text": _title(answer), "x": 0.02, "xanchor": "left"},
        template="simple_white",
        width=190 + 400 * len(outputs),
        height=130 + 470 * len(answer.devices),
        showlegend=False,
        margin={"l": 150, "r": 30, "t": 100, "b": 50},
        font={"family": "Helvetica, Arial, DejaVu Sans, sans-serif", "size": 13},
    )
    return figure


def _title(answer: Sensitivities) -> str:
    step = answer.devices[0].step
    knees = ", ".join(
        f"{found.cluster.name}: " + ", ".join(_value(name, v) for name, v in found.outputs.items())
        for found in answer.devices
    )
    return (
        "What the limits depend on: per cent more for one per cent more of an input"
        f"<br><sup>{knees}; differences of {step:.0%}, each side searched anew; "
        "triangles: upward and downward, where a side stands apart</sup>"
    )


def _value(output: str, value: float) -> str:
    return f"{output} {value:.1%}" if output == "mfu" else f"{output} {power(value)}"


def _add_bars(figure: Any, shown: list[Elasticity], row: int, col: int) -> None:
    import plotly.graph_objects as go

    names = [e.input.name.replace("_", " ") for e in shown]
    figure.add_trace(
        go.Bar(
            x=[e.elasticity for e in shown],
            y=names,
            orientation="h",
            marker={"color": [PALETTE[0] if (e.elasticity or 0) > 0 else PALETTE[1] for e in shown]},
            error_x={"type": "data", "array": [e.error for e in shown], "thickness": 1.2, "color": "#333"},
            text=[_hover(e) for e in shown],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        ),
        row=row,
        col=col,
    )
    apart = [(e, name) for e, name in zip(shown, names, strict=True) if e.kinked]
    for side, symbol in (("up", "triangle-up"), ("down", "triangle-down")):
        figure.add_trace(
            go.Scatter(
                x=[getattr(e, side) for e, _ in apart],
                y=[name for _, name in apart],
                mode="markers",
                marker={"symbol": symbol, "size": 8, "color": "#000"},
                hovertemplate=f"{side} alone: %{{x:+.2f}}<extra></extra>",
            ),
            row=row,
            col=col,
        )


def _hover(e: Elasticity) -> str:
    unit = e.input.unit
    sides = ", ".join(
        f"{name} {value:+.2f}" for name, value in (("down", e.down), ("up", e.up)) if value is not None
    )
    return (
        f"<b>{e.input.name}</b>: {e.input.doc}<br>{show(e.input.value, unit)}, taken from "
        f"{show(e.low, unit)} to {show(e.high, unit)}<br>{e.elasticity:+.3f} ± {e.error:.3f} ({sides})"
    )
