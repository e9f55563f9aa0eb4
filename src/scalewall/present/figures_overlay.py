"""Limits of several scenarios in one figure, some of them perhaps only sketched yet."""

from __future__ import annotations

import functools
import html
import json
from collections.abc import Sequence
from typing import Any

import attrs

from scalewall.present.figures import add_curve
from scalewall.present.figures_canvas import canvas, dress
from scalewall.study.limits import Curve, Limits


@attrs.frozen(kw_only=True)
class Parts:
    """What one curve adds to a figure: its traces and notes as plain values, and the most utilisation."""

    traces: list[dict[str, Any]]
    notes: list[dict[str, Any]]
    sustained: float


def curve_parts(name: str, one: Limits | Curve, place: int, alone: bool) -> Parts:
    """Return what a curve adds to a figure, under its name and in the colour of its place.

    What is a `Curve` alone is one of which neither knee nor wall is known yet.
    """
    figure, curve = canvas(), one.curves[0] if isinstance(one, Limits) else one
    before = len(figure.layout.annotations)
    titled = attrs.evolve(curve, cluster=attrs.evolve(curve.cluster, name=html.escape(name)))
    add_curve(figure, titled, place, alone, limits=isinstance(one, Limits))
    plain = json.loads(figure.to_json())
    for trace in plain["data"]:  # several may have the same name
        trace["legendgroup"] = "degrees" if trace.get("legendgroup") == "degrees" else str(place)
    notes = plain["layout"].get("annotations", [])[before:]
    return Parts(traces=plain["data"], notes=notes, sustained=curve.sustained_mfu)


def overlay_figure(parts: Sequence[Parts]) -> dict[str, Any]:
    """Return several curves in one figure, of plain values as Plotly's own JSON has it."""
    layout = _layout(tuple(part.sustained for part in parts))
    notes = [*layout["annotations"], *(note for part in parts for note in part.notes)]
    traces = [trace for part in parts for trace in part.traces]
    return {"data": traces, "layout": {**layout, "annotations": notes}}


@functools.lru_cache(maxsize=64)
def _layout(sustained: tuple[float, ...]) -> dict[str, Any]:
    figure = canvas()
    dress(figure, sustained, "Limits of training at scale")
    layout: dict[str, Any] = json.loads(figure.to_json())["layout"]
    return layout
