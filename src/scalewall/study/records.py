"""Answers as plain values: what the JSON documents, the tables and the files hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from scalewall.cost.assumptions import Assumptions
from scalewall.hardware.cluster import Cluster
from scalewall.strategy.search import Certificate
from scalewall.study.closed_form import Wall
from scalewall.study.limits import Curve, Limits
from scalewall.study.points import Point
from scalewall.study.records_uncertainty import of_limits_spread, of_uncertainty, uncertainty_rows
from scalewall.study.scenario import Scenario
from scalewall.study.sensitivity import Sensitivities, Sensitivity
from scalewall.workload.scaling import LAW_SOURCES, PowerLaw, Scaling

if TYPE_CHECKING:
    from scalewall.study.citations import Citation
    from scalewall.study.claims import Checked
    from scalewall.study.forecast import Forecast, Meeting

__all__ = ["of_uncertainty", "uncertainty_rows"]

STRATEGY_FIELDS = ("dp", "tp_model", "tp_ff", "pp", "ep", "microbatches", "interleave", "schedule")


def of_limits(answer: Limits) -> dict[str, Any]:
    """Return the document of `scalewall limits`."""
    curves = [of_curve(curve) for curve in answer.curves]
    return {"scenario": answer.scenario.as_dict(), **of_draws(answer), "curves": curves}


def of_draws(answer: Limits) -> dict[str, Any]:
    """Return how the uncertain inputs behind an answer were drawn; nothing where there are none."""
    if answer.draws is None:
        return {}
    return {"draws": {"samples": answer.draws.samples, "seed": answer.draws.seed, "interval": [0.05, 0.95]}}


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
        **of_limits_spread(curve.spread),
        "points": _of_points(curve),
    }


def _of_points(curve: Curve) -> list[dict[str, Any]]:
    """Return the points of a curve, each with how sure its MFU is where inputs are uncertain."""
    points = [of_point(point) for point in curve.points]
    if curve.spread is not None:
        for point, (low, middle, high) in zip(points, curve.spread.band().T.tolist(), strict=True):
            point |= {"mfu_median": middle, "mfu_interval": [low, high]}
    return points


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
    return {**record, "sources": {path: attrs.asdict(source) for path, source in cluster.sources.items()}}


def as_json(document: Any, indent: int | None = None) -> str:
    """Return plain values as JSON; what has no end, or is no number, is null: JSON has no word for it."""
    return json.dumps(_finite(document), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rows(answer: Limits) -> list[dict[str, Any]]:
    """Return every point of every curve as one flat row."""
    found = []
    for curve in answer.curves:
        for record in _of_points(curve):
            strategy, causes = record.pop("strategy"), record.pop("seconds_by_cause")
            record.pop("certificate")
            layout = {f"{axis}_layout": "x".join(map(str, p)) for axis, p in strategy.pop("layout").items()}
            limits = {"knee_flop": curve.knee_flop, "wall_flop": curve.wall_flop}
            spread = of_limits_spread(curve.spread)
            spread.pop("inputs", None)
            seconds = {f"{cause}_s": time for cause, time in causes.items()}
            row = {"hardware": curve.hardware, **record, **strategy, **layout, **seconds, **limits, **spread}
            found.append(flat(row))
    return found


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with each of its intervals as two numbers, as a row of a table holds them."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if name.endswith("_interval"):
            what = name.removesuffix("_interval")
            found |= {f"{what}_low": value[0], f"{what}_high": value[1]}
        else:
            found[name] = value
    return found


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


def of_sensitivity(answer: Sensitivities) -> dict[str, Any]:
    """Return the document of `scalewall sensitivity`."""
    return {
        "scenario": answer.scenario.as_dict(),
        "sensitivities": [
            {**_of_base(found), "elasticities": _of_elasticities(found), "design": _of_design(found)}
            for found in answer.devices
        ],
    }


def _of_base(found: Sensitivity) -> dict[str, Any]:
    outputs = {name: found.outputs.get(name) for name in ("knee", "mfu")}
    return {
        "hardware": found.cluster.name,
        "step": found.step,
        "knee_flop": found.knee_flop,
        "fitted_knee_flop": outputs["knee"],
        "wall_flop": found.wall_flop,
        "mfu_at_flop": found.at_flop,
        "fitted_mfu": outputs["mfu"],
    }


def _of_elasticities(found: Sensitivity) -> list[dict[str, Any]]:
    own = ("output", "elasticity", "error", "up", "down", "low", "high", "kinked")
    named = ("unit", "value")
    return [
        {
            "input": e.input.name,
            **{name: getattr(e.input, name) for name in named},
            **{name: getattr(e, name) for name in own},
        }
        for e in found.elasticities
    ]


def _of_design(found: Sensitivity) -> dict[str, Any] | None:
    if found.design is None:
        return None
    remedies = [
        {
            "input": r.input.name,
            "unit": r.input.unit,
            "value_today": r.input.value,
            "value": r.value,
            "factor": r.factor,
            "least": r.least,
            "most": r.most,
            "threshold_mfu": r.threshold_mfu,
            "point": of_point(r.point) if r.point else None,
        }
        for r in found.design.remedies
    ]
    today = found.design.today
    return {
        "target_flop": found.design.target_flop,
        "today": of_point(today) if today else None,
        "remedies": remedies,
    }


def sensitivity_rows(answer: Sensitivities) -> list[dict[str, Any]]:
    """Return every elasticity of every device as one flat row."""
    return [
        {"hardware": found.cluster.name, **e} for found in answer.devices for e in _of_elasticities(found)
    ]


def of_claims(checked: Sequence[Checked], device: str) -> dict[str, Any]:
    """Return the document of `scalewall claims`; an end of a range that is open is None."""
    return {"device": device, "claims": [_of_claim(one) for one in checked]}


def _of_claim(checked: Checked) -> dict[str, Any]:
    claim = checked.claim
    return {
        "id": claim.id,
        "source": claim.source,
        "where": claim.where,
        "claim": claim.claim,
        "claimed": _one_or_several(claim.claimed),
        "computed": _one_or_several(checked.computed or ()),
        "unit": claim.unit,
        "agrees": checked.agrees,
        "verdict": checked.verdict,
        "tolerance": claim.tolerance,
        "range": claim.range,
        "reason": claim.reason,
        "implied": checked.implied,
        "note": checked.note,
    }


def _one_or_several(numbers: Sequence[float]) -> float | list[float] | None:
    return None if not numbers else numbers[0] if len(numbers) == 1 else list(numbers)


def of_citations(about: Mapping[str, Any], found: Sequence[Citation]) -> dict[str, Any]:
    """Return the document of `scalewall cite`, with what it is `about`: the answer and its scenario."""
    cited = [{**attrs.asdict(citation), "used_for": list(citation.used_for)} for citation in found]
    return {**about, "citations": cited}


def of_forecast(answer: Forecast) -> dict[str, Any]:
    """Return the document of `scalewall forecast`."""
    from scalewall.study.notable import CREDIT

    trend, largest = answer.trend, answer.largest
    return {
        "scenario": answer.limits.scenario.as_dict(),
        **of_draws(answer.limits),
        "today": answer.today.isoformat(),
        "models": {
            "file": answer.source,
            "credit": CREDIT if answer.is_shipped else None,
            "known": len(answer.known),
            "last": max(model.date for model in answer.known).isoformat(),
        },
        "trend": {
            "since": trend.since,
            "top": trend.top,
            "models": len(trend.models),
            "growth_per_year": trend.growth,
            "growth_interval_95": list(trend.growth_interval),
            "scatter_log10": trend.scatter,
            "flop_today": trend.flop(answer.now),
        },
        "largest": {
            "name": largest.name,
            "organization": largest.organization,
            "date": largest.date.isoformat(),
            "training_flop": largest.training_flop,
        },
        "frontier": {
            "start": answer.start_from,
            "flop_today": answer.flop_today,
            "growth_per_year": answer.growth,
            "growth_interval": None if answer.growth_interval is None else list(answer.growth_interval),
        },
        "meetings": forecast_rows(answer),
    }


def forecast_rows(answer: Forecast) -> list[dict[str, Any]]:
    """Return when the frontier meets each limit, a row each; a date is None if there is none, ever."""
    from scalewall.study.forecast import day_of

    def day(year: float | None) -> str | None:
        found = None if year is None else day_of(year)
        return found.isoformat() if found else None

    def _of_spread(m: Meeting) -> dict[str, Any]:
        if m.flop_spread is None or m.year_spread is None:
            return {}
        low, middle, high = m.flop_spread
        first, median, last = map(day, m.year_spread)
        return {
            **{"training_flop_median": middle, "training_flop_interval": [low, high]},
            **{"date_median": median, "date_interval": [first, last]},
        }

    return [
        {
            "hardware": m.hardware,
            "limit": m.kind,
            "training_flop": m.training_flop,
            "binding": m.binding,
            "factor_from_today": None if m.training_flop is None else m.training_flop / answer.flop_today,
            "date": day(m.year),
            "earliest": day(m.interval[0]) if m.interval else None,
            "latest": day(m.interval[1]) if m.interval else None,
            "passed": m.passed,
            **_of_spread(m),
        }
        for m in answer.meetings
    ]
