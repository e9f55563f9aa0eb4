"""Two fields of a sweep against each other, as a Plotly figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalewall.errors import InputError, NoAnswer, nearest
from scalewall.present.figures import PALETTE
from scalewall.study.sweep_asks import ASKS, number
from scalewall.study.sweep_open import open_sweep
from scalewall.study.sweep_store import read_manifest

MOST_POINTS = 20_000  # drawn; of more, an even choice
_MOST_NAMES = 14  # values of a field of texts that get colours of their own
_LOG_FROM = 50.0  # the ratio of a field's ends from which its axis is logarithmic


def sweep_figure(folder: str | Path, x: str, y: str, colour: str | None = None) -> Any:
    """Return rows of a sweep as points: the field `y` against `x`, coloured by a third.

    Raises
    ------
    InputError
        If the folder holds no sweep, or a field is not known.
    NoAnswer
        If no row has both.
    """
    import plotly.graph_objects as go

    frame = open_sweep(folder)
    known = frame.collect_schema()
    for field, name in (("x", x), ("y", y), ("colour", colour)):
        if name is not None and (name not in known or known[name].is_nested()):
            names = [n for n, kind in known.items() if not kind.is_nested()]
            raise InputError(field, "a field of the sweep", name, nearest(name, names))
    wanted = list(dict.fromkeys(name for name in (x, y, colour) if name))
    rows = frame.select("index", *(name for name in wanted if name != "index")).drop_nulls([x, y])
    points = rows.sort("index").collect()
    if not points.height:
        raise NoAnswer(f"No row of '{folder}' has both {x} and {y}.")
    total = points.height
    if total > MOST_POINTS:
        points = points.gather_every(-(-total // MOST_POINTS))
    figure = go.Figure()
    for trace in _traces(points, x, y, colour):
        figure.add_trace(go.Scattergl(**trace))
    asks = [entry["content"]["ask"] for entry in read_manifest(Path(folder))["sweeps"]]
    figure.update_xaxes(**_axis(points[x], x, asks[-1]))
    figure.update_yaxes(**_axis(points[y], y, asks[-1]))
    some = f"{points.height:,} of {total:,} rows" if points.height < total else f"{total:,} rows"
    figure.update_layout(
        title={"text": f"{y} against {x}<br><sup>{Path(folder).name}: {some}</sup>", "x": 0.02},
        template="simple_white",
        width=1000,
        height=620,
        legend={"title": {"text": colour or ""}},
        font={"family": "Helvetica, Arial, DejaVu Sans, sans-serif", "size": 13},
    )
    return figure


def points_of(figure: Any) -> int:
    """Return how many points a figure shows."""
    return sum(len(trace.x) for trace in figure.data)


def _traces(points: Any, x: str, y: str, colour: str | None) -> list[dict[str, Any]]:
    base = {"mode": "markers"}
    if colour is None:
        marker = {"color": PALETTE[0], "size": 6, "opacity": 0.7}
        return [{**base, "x": points[x].to_list(), "y": points[y].to_list(), "marker": marker}]
    if points[colour].dtype.is_numeric():
        marker = {
            **{"color": points[colour].to_list(), "colorscale": "Viridis", "size": 6, "opacity": 0.8},
            "colorbar": {"title": {"text": colour}, "exponentformat": "power"},
        }
        return [{**base, "x": points[x].to_list(), "y": points[y].to_list(), "marker": marker}]
    texts = points[colour].cast(str).fill_null("none")
    names = texts.unique(maintain_order=True).to_list()
    traces = []
    for place, name in enumerate(names[:_MOST_NAMES]):
        own = points.filter(texts == name)
        marker = {"color": PALETTE[place % len(PALETTE)], "size": 6, "opacity": 0.7}
        marker["symbol"] = "circle" if place < len(PALETTE) else "diamond"
        traces.append({**base, "name": name, "x": own[x].to_list(), "y": own[y].to_list(), "marker": marker})
    if names[_MOST_NAMES:]:
        own = points.filter(texts.is_in(names[_MOST_NAMES:]))
        grey = {"color": "#999", "size": 5, "opacity": 0.5}
        traces.append(
            {**base, "name": "others", "x": own[x].to_list(), "y": own[y].to_list(), "marker": grey}
        )
    return traces


def _axis(values: Any, name: str, ask: str) -> dict[str, Any]:
    """Return an axis: logarithmic where a field is positive and spans orders of magnitude."""
    given = number(ask, name) if name in ASKS[ask].words else None
    unit = given.unit if given else "s" if name.endswith("_s") else ""
    title = name if unit in ("", "1") else f"{name} ({unit})"
    found: dict[str, Any] = {"title_text": title, "gridcolor": "#e5e5e5", "showgrid": True}
    if values.dtype.is_numeric():
        low, high = values.min(), values.max()
        if low > 0 and high / low >= _LOG_FROM:
            found |= {"type": "log", "exponentformat": "power"}
    return found
