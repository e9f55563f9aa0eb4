"""Answers as plain values: what the JSON documents, the tables and the files hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from scalewall.cost.assumptions import Assumptions
from scalewall.hardware.cluster import Cluster
from scalewall.strategy.search import Certificate
from scalewall.study.closed_form import Wall
from scalewall.study.limits import Curve, Limits
from scalewall.study.points import Point
from scalewall.study.scenario import Scenario
from scalewall.workload.scaling import LAW_SOURCES, PowerLaw, Scaling

STRATEGY_FIELDS = ("dp", "tp_model", "tp_ff", "pp", "ep", "microbatches", "interleave", "schedule")


def of_limits(answer: Limits) -> dict[str, Any]:
    """Return the document of `scalewall limits`."""
    return {"scenario": answer.scenario.as_dict(), "curves": [of_curve(curve) for curve in answer.curves]}


def of_curve(curve: Curve) -> dict[str, Any]:
    """Return a device's limits; `derived` says which of its numbers nobody states, and how they came."""
    return {
        "hardware": curve.hardware,
        "title": curve.cluster.title,
        "sustained_mfu": curve.sustained_mfu,
        "threshold_mfu": curve.threshold_mfu,
        "knee_flop": curve.knee_flop,
        "knee_binding": curve.knee_binding,
        "wall_flop": curve.wall_flop,
        "wall_binding": curve.wall_binding,
        "binding": curve.binding,
        "derived": curve.derived,
        "points": [of_point(point) for point in curve.points],
    }


def of_point(point: Point) -> dict[str, Any]:
    """Return one point of a curve."""
    w = point.workload
    strategy = {name: getattr(point.strategy, name) for name in STRATEGY_FIELDS}
    return {
        "training_flop": point.training_flop,
        "mfu": point.mfu,
        "n_devices": point.n_devices,
        "duration_s": point.duration_s,
        "binding": point.binding,
        "strategy": {**strategy, "layout": {axis: list(p) for axis, p in point.strategy.layout.items()}},
        "step_seconds": point.step_seconds,
        "seconds_by_cause": point.seconds_by_cause,
        "memory_bytes": point.memory_bytes,
        "parameters": w.parameters,
        "sparsity": w.sparsity,
        "tokens": w.tokens,
        "d_model": w.d_model,
        "layers": w.layers,
        "batch_tokens": w.batch_tokens,
        "certificate": of_certificate(point.certificate),
    }


def of_best(scenario: Scenario, found: Mapping[str, Sequence[Point]]) -> dict[str, Any]:
    """Return the document of `scalewall best`."""
    answers = [{"hardware": name, "points": [of_point(p) for p in points]} for name, points in found.items()]
    return {"scenario": scenario.as_dict(), "best": answers}


def of_certificate(certificate: Certificate | None) -> dict[str, Any] | None:
    """Return what a search did to be sure; `best_discarded` is None if it discarded nothing."""
    if certificate is None:
        return None
    record = attrs.asdict(certificate)
    if math.isinf(certificate.best_discarded):
        record["best_discarded"] = None
    return record


def of_hardware(cluster: Cluster) -> dict[str, Any]:
    """Return a hardware entry with the source of every number."""
    record = attrs.asdict(cluster, filter=lambda a, _: a.name != "sources")
    record["device"]["sustained_rate"] = cluster.device.sustained_rate()
    finite: dict[str, Any] = _without_infinity(record)
    return {**finite, "sources": {path: attrs.asdict(source) for path, source in cluster.sources.items()}}


def _without_infinity(value: Any) -> Any:
    """Return `value` with None, which JSON can hold, for what has no end."""
    if isinstance(value, dict):
        return {key: _without_infinity(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_infinity(inner) for inner in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def rows(answer: Limits) -> list[dict[str, Any]]:
    """Return every point of every curve as one flat row."""
    flat = []
    for curve in answer.curves:
        for point in curve.points:
            record = of_point(point)
            strategy, causes = record.pop("strategy"), record.pop("seconds_by_cause")
            record.pop("certificate")
            layout = {f"{axis}_layout": "x".join(map(str, p)) for axis, p in strategy.pop("layout").items()}
            limits = {"knee_flop": curve.knee_flop, "wall_flop": curve.wall_flop}
            seconds = {f"{cause}_s": time for cause, time in causes.items()}
            flat.append({"hardware": curve.hardware, **record, **strategy, **layout, **seconds, **limits})
    return flat


def assumptions() -> list[dict[str, Any]]:
    """Return every assumption that belongs to no device: name, default, unit, meaning and source."""
    found = []
    for cls, names in ((Scenario, {"duration", "threshold"}), (Scaling, None), (Assumptions, None)):
        for a in attrs.fields(cls):
            if names is None or a.name in names:
                law = isinstance(a.default, PowerLaw)
                default = a.default.text if law else a.default
                known = {key: a.metadata.get(key, "") for key in ("unit", "doc", "source")}
                if law:
                    known["source"] = LAW_SOURCES[a.name]
                found.append({"name": f"{a.name}_law" if law else a.name, "default": default, **known})
    return found


def of_wall(answer: Wall) -> dict[str, Any]:
    """Return the document of `scalewall wall`."""
    return attrs.asdict(answer)
