"""What stands behind a plan's numbers: formulas with the values put in, and where the values come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from scalewall.cost import training, training_memory
from scalewall.cost.practice import Practice
from scalewall.cost.training_memory import Allowance
from scalewall.study.plan import Planned
from scalewall.study.planning import PlanScenario
from scalewall.units import show
from scalewall.web.plain import Plain


@attrs.frozen
class Formula:
    """A formula, and the same with values put in."""

    title: str
    formula: str
    put_in: str


def formula_of(function: Callable[..., Any]) -> str:
    """Return the formula that stands in a cost function's docstring."""
    found = re.search(r"``([^`]+)``", function.__doc__ or "")
    return " ".join(found[1].split()) if found else ""


def notes_of(function: Callable[..., Any]) -> str:
    """Return the notes of a cost function's docstring, in one line."""
    _, _, notes = (function.__doc__ or "").partition("-----")
    return " ".join(notes.split())


def formulas(asked: PlanScenario, one: Planned) -> list[Formula]:
    """Return the formulas of a strategy's numbers."""
    job, device = asked.job, asked.cluster.device
    peak = device.peak_rate(job.recipe.matmul)
    spent = [
        f"{show(seconds, 's', 4)} {name.replace('_', ' ')}"
        for name, seconds in one.seconds_by_cause.items()
        if seconds
    ]
    held = [f"{show(size, 'B', 4)} {name}" for name, size in one.memory_bytes.items() if size]
    devices = one.plan.devices
    return [
        Formula(
            "Seconds a step",
            formula_of(training.step),
            f"= {' + '.join(spent)} = {show(one.step_time_s, 's', 4)}",
        ),
        Formula(
            "Model FLOP utilisation",
            "model FLOP a step / (devices · dense peak · seconds a step); "
            + notes_of(training.step).partition("; ")[2],
            f"= {job.model_flop:.4g} / ({devices:,} · {show(peak, 'FLOP/s')} · {one.step_time_s:.4g} s)"
            f" = {one.mfu:.2%}",
        ),
        Formula(
            "Tokens a second and device",
            "sequences · tokens a sequence / (seconds a step · devices)",
            f"= {asked.batch:,} · {asked.seq:,} / ({one.step_time_s:.4g} s · {devices:,})"
            f" = {one.tokens_per_s_per_device:,.1f}",
        ),
        Formula(
            "Memory of the fullest stage",
            notes_of(training_memory.memory_bytes),
            f"{' + '.join(held)} = {show(one.memory, 'B', 4)}",
        ),
    ]


def sources(asked: PlanScenario) -> Plain:
    """Return the values behind a plan: the device's, and the constants of practice and memory."""
    return Plain(
        caption="Values and their sources",
        heads=("name", "value", "what it is", "source"),
        right=(False, True, False, False),
        rows=(
            *_of_hardware(asked),
            *_constants(asked.practice, Practice),
            *_constants(asked.allowance, Allowance),
        ),
    )


def _of_hardware(asked: PlanScenario) -> Iterator[tuple[str, ...]]:
    cluster = asked.cluster
    device = cluster.device
    values = {
        f"device.peak.{name}": (show(rate, "FLOP/s"), f"dense peak, {name}")
        for name, rate in device.peak.items()
    }
    values |= {
        "device.sustained": (f"{device.sustained:g}", "share of the peak that is sustained"),
        "device.memory": (show(device.memory, "B"), "main memory"),
        "device.memory_bandwidth": (show(device.memory_bandwidth, "B/s"), "of main memory"),
    }
    for i, tier in enumerate(cluster.tiers):
        values[f"tiers[{i}].bandwidth"] = show(tier.bandwidth, "B/s"), f"{tier.name}, a device and direction"
        values[f"tiers[{i}].latency"] = show(tier.latency, "s"), f"{tier.name}, one operation"
    for path, (value, what) in values.items():
        source = cluster.sources.get(path)
        said = (
            "default, or changed by you"
            if source is None
            else ("derived: " if source.derived else "") + source.text
        )
        yield path, value, what, said


def _constants(owner: Any, cls: type[Any]) -> Iterator[tuple[str, ...]]:
    for a in attrs.fields(cls):
        value, unit = getattr(owner, a.name), a.metadata.get("unit")
        if isinstance(value, float) and unit:
            yield a.name, show(value, unit), str(a.metadata.get("doc", "")), str(a.metadata.get("source", ""))
