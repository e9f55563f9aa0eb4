"""What stands behind a number: its formula with the values put in, and where those come from."""

from __future__ import annotations

import math
from typing import Any

import attrs
from dash import html

from scalewall.cost import step
from scalewall.present.figures import power
from scalewall.study import boundary
from scalewall.study.limits import Curve, Limits
from scalewall.study.points import Point
from scalewall.study.scenario import Scenario
from scalewall.units import show
from scalewall.web import views
from scalewall.web.behind import formula_of
from scalewall.web.plain import Plain
from scalewall.workload.scaling import LAW_SOURCES, Workload

_KINDS = {
    "knee": "The largest efficient run: from here on MFU is below the floor",
    "wall": "The largest feasible run: no strategy on any number of devices ends a larger one in time",
}


def _doc(cls: type[Any], name: str) -> str:
    return str(attrs.fields_dict(cls)[name].metadata["doc"])


def limits(answer: Limits, what: str, flop: float | None = None) -> list[Any]:
    """Return what stands behind a number of a limits answer.

    Parameters
    ----------
    what
        ``knee.mfu``, ``wall.devices`` and the like, or ``point``: all of the point nearest to `flop`.
    """
    curve = answer.curves[0]
    kind, _, quantity = what.partition(".")
    if kind == "point":
        near = min(curve.points, key=lambda p: abs(math.log(p.training_flop / (flop or p.training_flop))))
        return [*views.point_panel(curve, near), *_mfu(answer.scenario, curve, near)]
    point = curve.wall if kind == "wall" or curve.knee is None else curve.knee
    parts = {"flop": _flop, "devices": _devices, "mfu": _mfu, "duration": _duration}.get(quantity, _flop)
    precision = boundary.WALL_PRECISION if kind == "wall" else boundary.KNEE_PRECISION
    found = (
        f"Found by search to {precision:.1%} in training compute." if not answer.scenario.is_papers else ""
    )
    said = [html.P(f"{_KINDS.get(kind, '')}. {found}")]
    return [*said, *parts(answer.scenario, curve, point), *views.point_panel(curve, point)]


def _block(title: str, formula: str, put_in: str) -> list[Any]:
    return [html.H3(title), html.Div([html.Div(formula), html.Div(put_in)], className="formula")]


def _sources(rows: list[tuple[str, str, str]]) -> html.Div:
    table = Plain(
        caption="Values and their sources",
        heads=("what", "value", "source"),
        right=(False, True, False),
        rows=tuple(rows),
    )
    return views.html_table(table)


def _source(curve: Curve, path: str) -> str:
    source = curve.cluster.sources.get(path)
    if source is None:
        return "default, or changed by you"
    return ("derived: " if source.derived else "") + source.text


def _flop(scenario: Scenario, curve: Curve, point: Point) -> list[Any]:
    w = point.workload
    active = w.parameters / w.sparsity
    return [
        *_block(
            "Training compute",
            f"C = {_doc(Workload, 'training_flop').partition(', ')[2]}",
            f"= 6 · {active:.4g} · {w.tokens:.4g} = {power(point.training_flop)} FLOP",
        ),
        _sources(
            [
                ("active parameters", f"{active:.4g}", LAW_SOURCES["depth"]),
                (
                    "tokens a parameter",
                    f"{scenario.scaling.tokens_per_parameter:g}",
                    "arXiv 2203.15556 unless changed",
                ),
                ("tokens a batch", f"{w.batch_tokens:.4g}", LAW_SOURCES["batch"]),
                ("longest duration", show(scenario.duration, "s"), "your entry"),
                ("utilisation floor", f"{scenario.threshold:.0%} of {curve.sustained_mfu:.1%}", "your entry"),
            ]
        ),
    ]


def _devices(scenario: Scenario, curve: Curve, point: Point) -> list[Any]:
    s = point.strategy
    degrees = [getattr(s, axis) for axis in step.AXES]
    return _block(
        "Devices",
        " · ".join(step.AXES),
        f"= {' · '.join(f'{d:,}' for d in degrees)} = {s.devices:,}",
    )


def _mfu(scenario: Scenario, curve: Curve, point: Point) -> list[Any]:
    w, device = point.workload, curve.cluster.device
    peak = device.peak_rate(scenario.how.precision)
    name = next((p for p, rate in device.peak.items() if rate == peak), scenario.how.precision)
    return [
        *_block(
            "Model FLOP utilisation",
            f"MFU = {formula_of(step.mfu)}",
            f"= {point.training_flop:.4g} / ({w.steps:.4g} · {point.step_seconds:.4g} s · "
            f"{point.n_devices:.4g} · {show(peak, 'FLOP/s')}) = {point.mfu:.2%}",
        ),
        _sources(
            [
                ("dense peak", show(peak, "FLOP/s"), _source(curve, f"device.peak.{name}")),
                ("sustained share", f"{device.sustained:g}", _source(curve, "device.sustained")),
                (
                    "memory bandwidth",
                    show(device.memory_bandwidth, "B/s"),
                    _source(curve, "device.memory_bandwidth"),
                ),
                ("kernel latency", show(device.kernel_latency, "s"), _source(curve, "device.kernel_latency")),
                *(
                    row
                    for i, tier in enumerate(curve.cluster.tiers)
                    for row in (
                        (tier.name, show(tier.bandwidth, "B/s"), _source(curve, f"tiers[{i}].bandwidth")),
                        (
                            f"{tier.name}, latency",
                            show(tier.latency, "s"),
                            _source(curve, f"tiers[{i}].latency"),
                        ),
                    )
                ),
            ]
        ),
    ]


def _duration(scenario: Scenario, curve: Curve, point: Point) -> list[Any]:
    w = point.workload
    return _block(
        "Duration",
        "steps · seconds a step, with steps = tokens / tokens a batch",
        f"= {w.tokens:.4g} / {w.batch_tokens:.4g} · {point.step_seconds:.4g} s"
        f" = {show(point.duration_s, 's')}",
    )
