"""The spread of limits as plain values: what the JSON documents, the tables and the files hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalewall.study.uncertainty import Answer, Spread
from scalewall.study.variance import Indices


def of_limits_spread(spread: Spread | None) -> dict[str, Any]:
    """Return how sure knee and wall are, beside a device's limits; nothing where no input is uncertain."""
    if spread is None:
        return {}
    found: dict[str, Any] = {"inputs": _of_inputs(spread)}
    for limit in ("knee_flop", "wall_flop"):
        low, middle, high = spread.interval(limit)
        found |= {f"{limit}_median": middle, f"{limit}_interval": [low, high]}
    return {**found, "draws_without_knee": spread.without_knee}


def of_uncertainty(answer: Answer) -> dict[str, Any]:
    """Return the document of `scalewall uncertainty`, with every draw."""
    return {
        "scenario": answer.scenario.as_dict(),
        "samples": answer.samples,
        "seed": answer.seed,
        "hardware": [_of_spread(spread) for spread in answer.spreads],
    }


def _of_spread(spread: Spread) -> dict[str, Any]:
    def quantiles(values: Any) -> dict[str, float]:
        return {name: float(value) for name, value in zip(("p05", "p50", "p95"), values, strict=True)}

    names = [some.name for some in spread.uncertainty.inputs]
    band = zip(spread.computes, spread.baseline.mfu, spread.band().T, strict=True)
    return {
        "hardware": spread.cluster.name,
        "inputs": _of_inputs(spread),
        "correlation": spread.uncertainty.correlation.tolist(),
        **{
            limit: {"baseline": getattr(spread.baseline, limit), **quantiles(spread.interval(limit))}
            for limit in ("knee_flop", "wall_flop")
        },
        "mfu": [{"training_flop": flop, "baseline": b, **quantiles(ends)} for flop, b, ends in band],
        "draws": uncertainty_rows_of(spread),
        "sobol": _of_indices(names, spread.indices) if spread.indices is not None else None,
    }


def _of_inputs(spread: Spread) -> list[dict[str, Any]]:
    return [
        {
            "name": some.name,
            "unit": some.given.unit,
            "value": some.given.value,
            "distribution": {"kind": some.kind, "numbers": list(some.numbers)},
            "source": some.source,
        }
        for some in spread.uncertainty.inputs
    ]


def _of_indices(names: Sequence[str], found: Indices) -> dict[str, Any]:
    shares: dict[str, Any] = {"n": found.n, "of": "log10 FLOP", "interval": [0.05, 0.95]}
    for output, limit in enumerate(("knee_flop", "wall_flop")):
        shares[limit] = {
            name: {
                "first": float(found.first[output, i]),
                "first_interval": found.first_interval[:, output, i].tolist(),
                "total": float(found.total[output, i]),
                "total_interval": found.total_interval[:, output, i].tolist(),
            }
            for i, name in enumerate(names)
        }
    return shares


def uncertainty_rows_of(spread: Spread) -> list[dict[str, Any]]:
    """Return every draw of a device as one flat row: the inputs, knee, wall and MFU by compute."""
    names = [some.name for some in spread.uncertainty.inputs]
    return [
        {
            **dict(zip(names, values, strict=True)),
            "knee_flop": outcome.knee_flop,
            "wall_flop": outcome.wall_flop,
            **{f"mfu_at_{c:.3e}": m for c, m in zip(spread.computes, outcome.mfu, strict=True)},
        }
        for values, outcome in zip(spread.drawn.tolist(), spread.outcomes, strict=True)
    ]


def uncertainty_rows(answer: Answer) -> list[dict[str, Any]]:
    """Return every draw of every device as one flat row."""
    return [
        {"hardware": spread.cluster.name, **row}
        for spread in answer.spreads
        for row in uncertainty_rows_of(spread)
    ]
