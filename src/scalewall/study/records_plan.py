"""Plans, comparisons with measured runs, and models as plain values: what JSON, tables and files hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from scalewall.cost.machine import Machine
from scalewall.cost.practice import SOFTWARE, Practice
from scalewall.cost.training_memory import Allowance
from scalewall.hardware.device import GENERIC
from scalewall.study.citations import Answered
from scalewall.study.plan import Planned, Planning
from scalewall.study.planning import PlanScenario
from scalewall.study.validation import Compared, Validation
from scalewall.workload.model import Model

MLPERF = (
    "Rows whose id begins with mlperf are derived from public logs of MLPerf Training. They are no MLPerf "
    "metrics and not verified by MLCommons Association."
)


def answered(scenario: PlanScenario) -> Answered:
    """Return what a plan is an answer to."""
    return Answered(
        command="plan",
        kinds=("plan", "zero-bubble") if scenario.schedule == "zero-bubble" else ("plan",),
        hardware=(scenario.hardware,),
        preset=scenario.preset,
        model=scenario.model,
    )


def of_planning(answer: Planning) -> dict[str, Any]:
    """Return the document of `scalewall plan`."""
    scenario = answer.scenario
    model = scenario.job.model
    return {
        "model": scenario.model,
        "title": model.title or model.name,
        "parameters": model.parameters,
        "hardware": scenario.hardware,
        **{name: getattr(scenario, name) for name in ("gpus", "batch", "seq", "precision", "software")},
        "curves": curves(scenario),
        "min_gpus": answer.min_gpus,
        "priced": answer.priced,
        "fitting": answer.fitting,
        "strategies": [of_planned(scenario, one) for one in answer.strategies],
        "free": of_planned(scenario, answer.free) if answer.free else None,
        "differences": answer.differences,
        "remedies": list(answer.remedies),
        "scenario": scenario.as_dict(),
    }


def curves(scenario: PlanScenario) -> dict[str, Any]:
    """Return the measured curves that a plan rests on: of the device's kernels and of each tier of network.

    A class that is not `measured` stands in for one. `scale` is of the matrix multiplications'
    efficiencies over those of the class; `fitted_to` is theirs in the plan's precision.
    """
    cluster, recipe = scenario.cluster, scenario.job.recipe
    machine = Machine.of(cluster)
    return {
        "class": machine.curves.name,
        "measured": machine.curves.name != GENERIC,
        "device": cluster.device.curves,
        "scale": machine.curves.scale,
        "fitted_to": machine.curves.matmul(recipe.curve).fitted_to,
        "network": [
            {"tier": tier.name, "class": link.curves.name, "measured": bool(link.curves.names)}
            for tier, link in zip(cluster.tiers, machine.links, strict=True)
        ],
    }


def of_planned(scenario: PlanScenario, one: Planned) -> dict[str, Any]:
    """Return one strategy with its times and bytes."""
    plan = one.plan
    layers = math.ceil(scenario.job.model.layers / plan.pp)
    return {
        **{name: getattr(plan, name) for name in ("tp", "pp", "dp", "cp")},
        "ep": 1,
        "vpp": plan.interleave,
        "micro_batch": plan.micro_batch,
        "microbatches": scenario.batch // (plan.dp * plan.micro_batch),
        "zero": plan.zero,
        "shard": plan.shard,
        "recompute": {
            "share": plan.recomputed,
            "layers": round(plan.recomputed * layers),
            "selective": plan.selective,
        },
        "schedule": plan.schedule,
        "step_time_s": one.step_time_s,
        "mfu": one.mfu,
        "hfu": one.hfu,
        "tokens_per_s": one.tokens_per_s,
        "tokens_per_s_per_device": one.tokens_per_s_per_device,
        "seconds_by_cause": dict(one.seconds_by_cause),
        "memory_bytes": dict(one.memory_bytes),
        "memory_total_bytes": one.memory,
        "memory_capacity_bytes": one.memory_capacity,
        "worst_stage": one.stage,
        "fits": one.fits,
        "binds": one.binds,
        "run": attrs.asdict(one.run) if one.run else None,
    }


def planning_rows(answer: Planning) -> list[dict[str, Any]]:
    """Return every strategy as one flat row."""
    return [_flat(of_planned(answer.scenario, one)) for one in answer.strategies]


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the tables in it as columns: ``seconds_by_cause`` as ``optimizer_s`` and so on."""
    flat = {}
    for name, value in record.items():
        if not isinstance(value, dict):
            flat[name] = value
            continue
        ending = {"seconds_by_cause": "{}_s", "memory_bytes": "{}_bytes"}.get(name, f"{name}_{{}}")
        flat |= {ending.format(key): inner for key, inner in value.items()}
    return flat


def of_validation(answer: Validation) -> dict[str, Any]:
    """Return the document of `scalewall validate`."""
    return {
        "summary": attrs.asdict(answer.summary),
        "rows": [of_compared(row) for row in answer.rows],
        "skipped": [{"id": id_, "reason": reason} for id_, reason in answer.skipped.items()],
        "credit": credit(answer.rows),
    }


def of_compared(row: Compared) -> dict[str, Any]:
    """Return one run's prediction beside its measurement, and what was settled or searched for it."""
    record = attrs.asdict(row)
    return {**record, "searched": list(row.searched), "settled": list(row.settled)}


def validation_rows(answer: Validation) -> list[dict[str, Any]]:
    """Return every run compared as one flat row."""
    flat = []
    for row in answer.rows:
        record = of_compared(row)
        record |= {name: "; ".join(record[name]) for name in ("searched", "settled")}
        flat.append(_flat(record))
    return flat


def reasons(answer: Validation) -> list[tuple[str, int]]:
    """Return why rows were skipped, and how many for each reason, the most frequent first."""
    return Counter(answer.skipped.values()).most_common()


def credit(rows: Sequence[Compared]) -> str | None:
    """Return what must be said beside results, if some of them need it."""
    return MLPERF if any(row.source == "mlperf" for row in rows) else None


def of_model(model: Model, sequence: int) -> dict[str, Any]:
    """Return a model: its fields, its exact counts, and its FLOP a token for sequences of that length."""
    counts = ("parameters", "embedding_parameters", "layer_parameters", "head_parameters")
    return {
        **attrs.asdict(model),
        **{name: getattr(model, name) for name in (*counts, "matmul_parameters")},
        "seq": sequence,
        "training_flop_per_token": float(model.training_flop(sequence)),
        "training_flop_per_token_full_attention": float(model.training_flop(sequence, causal_half=False)),
    }


def practice() -> list[dict[str, Any]]:
    """Return the constants of real runs: name, default, unit, meaning and source."""
    return _constants(Practice)


def allowance() -> list[dict[str, Any]]:
    """Return the memory that no formula gives: name, default, unit, meaning and source."""
    return _constants(Allowance)


def _constants(cls: type[Any]) -> list[dict[str, Any]]:
    return [
        {"name": a.name, "default": a.default, **{key: a.metadata[key] for key in ("unit", "doc", "source")}}
        for a in attrs.fields(cls)
    ]


def frameworks() -> list[dict[str, Any]]:
    """Return what each framework does."""
    return [attrs.asdict(entry) for entry in SOFTWARE.values()]
