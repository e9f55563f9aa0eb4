"""Plans of real runs as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scalewall.cost.training import TRAINING_CAUSES
from scalewall.cost.training_memory import MEMORY_ITEMS
from scalewall.present.tables import show_table
from scalewall.strategy.plans import Plan
from scalewall.study.plan import Planned, Planning, WholeRun
from scalewall.study.planning import PlanScenario
from scalewall.study.records_plan import curves
from scalewall.units import show

LEAST_SHARE = 5e-5
"""Shares below that are left out: they would read 0.00%."""

MEANING = 90
"""Letters of a line that says what a number is."""


def show_planning(console: Console, answer: Planning) -> None:
    """Print a plan: the strategies, where the best one's seconds and bytes go, and what would be better."""
    best = answer.strategies[0]
    for line in head(answer):
        console.print(Text(line), soft_wrap=True)
    show_table(console, strategies_table(answer.scenario, answer.strategies))
    console.print()
    console.print(
        "where every second of a step goes" + ("" if len(answer.strategies) == 1 else ", strategy 1")
    )
    show_table(console, seconds_table(best))
    console.print()
    console.print(f"where every byte of the fullest stage's devices goes (the {best.stage} stage)")
    show_table(console, bytes_table(best))
    console.print()
    for line in findings(answer):
        console.print(Text(line), soft_wrap=True)
    if answer.free is not None and answer.differences is not None:
        gain = best.step_time_s - answer.free.step_time_s
        if gain > 1e-9 * best.step_time_s:
            show_table(console, differences_table(answer.differences, best.step_time_s))


def head(answer: Planning) -> Iterator[str]:
    """Yield what was asked, and how many strategies there are."""
    scenario = answer.scenario
    model = scenario.job.model
    name = model.title or model.name
    yield (
        f"{name}, {model.parameters:,} parameters, on {scenario.gpus:,} {scenario.hardware}: "
        f"batches of {scenario.batch:,} × {scenario.seq:,} tokens, {scenario.precision}, {scenario.software}"
    )
    if answer.min_gpus is not None:
        yield f"Fewest devices that fit: {answer.min_gpus:,} (of the numbers 2^a, 3·2^a and 9·2^a)."
    yield rests_on(curves(scenario))
    yield f"{answer.priced:,} strategies priced, {answer.fitting:,} of them fit."


def rests_on(found: Mapping[str, Any]) -> str:
    """Return the classes of measured curves that a plan rests on, in a line."""
    kind = f"curves measured on {found['class']}" if found["measured"] else "not measured, generic curves"
    scale = f"{found['scale']:.3g}"
    scaled = "" if scale == "1" else f" at {scale} times their efficiency"
    tiers = [tier["class"] + ("" if tier["measured"] else " (not measured)") for tier in found["network"]]
    return f"Kernels: {kind}{scaled}. Network: {', '.join(tiers)}."


def strategies_table(scenario: PlanScenario, strategies: Sequence[Planned]) -> Table:
    """Return strategies as a table, one row each."""
    table = Table(box=None, pad_edge=False)
    for name in (
        "",
        "step",
        "MFU",
        "HFU",
        "tokens/s/device",
        *("tp", "cp", "pp", "vpp", "dp"),
        "micro-batch",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("sharding", "recomputed", "schedule", "memory", "binds"):
        table.add_column(name, no_wrap=True)
    for i, one in enumerate(strategies, 1):
        plan = one.plan
        count = scenario.batch // (plan.dp * plan.micro_batch)
        memory = f"{show(one.memory, 'B', 3)} ({one.memory / one.memory_capacity:.0%})"
        table.add_row(
            str(i),
            show(one.step_time_s, "s"),
            f"{one.mfu:.1%}",
            f"{one.hfu:.1%}",
            f"{one.tokens_per_s_per_device:,.0f}",
            *(str(degree) for degree in (plan.tp, plan.cp, plan.pp, plan.interleave, plan.dp)),
            f"{count} × {plan.micro_batch}",
            sharding(plan),
            recomputed(plan, scenario.job.model.layers),
            plan.schedule,
            memory if one.fits else f"{memory}, does not fit",
            one.binds.replace("_", " "),
        )
    return table


def sharding(plan: Plan) -> str:
    """Return how a plan shards what data-parallel ranks share."""
    if not plan.zero:
        return "none"
    return f"ZeRO-{plan.zero} over {plan.shard}"


def recomputed(plan: Plan, layers: int) -> str:
    """Return what a plan recomputes."""
    stage = math.ceil(layers / plan.pp)
    count = round(plan.recomputed * stage)
    parts = [f"{count} of {stage} layers"] if count else []
    parts += ["selective"] if plan.selective and count < stage else []
    return " + ".join(parts) or "nothing"


def seconds_table(one: Planned) -> Table:
    """Return where a step's time goes, one cause a row."""
    table = Table(box=None, pad_edge=False)
    for name in ("cause", "time", "share"):
        table.add_column(name, justify="left" if name == "cause" else "right", no_wrap=True)
    table.add_column("what it is", max_width=MEANING)
    for cause, seconds in one.seconds_by_cause.items():
        share = seconds / one.step_time_s
        if abs(share) > LEAST_SHARE:
            table.add_row(cause.replace("_", " "), show(seconds, "s"), f"{share:.2%}", TRAINING_CAUSES[cause])
    table.add_row("step", show(one.step_time_s, "s"), "100.00%", "")
    return table


def bytes_table(one: Planned) -> Table:
    """Return where a device's memory goes, one item a row; shares are of what it has."""
    table = Table(box=None, pad_edge=False)
    for name in ("item", "bytes", "share"):
        table.add_column(name, justify="left" if name == "item" else "right", no_wrap=True)
    table.add_column("what it is", max_width=MEANING)
    for item, size in one.memory_bytes.items():
        share = size / one.memory_capacity
        if share > LEAST_SHARE:
            table.add_row(item, show(size, "B"), f"{share:.2%}", MEMORY_ITEMS[item])
    total, capacity = one.memory, one.memory_capacity
    table.add_row("total", show(total, "B"), f"{total / capacity:.2%}", f"of {show(capacity, 'B')}")
    return table


def findings(answer: Planning) -> Iterator[str]:
    """Yield what binds, what a whole run takes, what would make it fit, and what would be faster."""
    best = answer.strategies[0]
    share = best.seconds_by_cause[best.binds] / best.step_time_s
    yield f"Binds: {best.binds.replace('_', ' ')}, {share:.1%} of the step."
    if best.run is not None:
        yield from _run(best.run)
    if not best.fits:
        over = show(best.memory - best.memory_capacity, "B", 3)
        would = ", or ".join(answer.remedies)
        yield f"It does not fit: {over} too much. " + (
            f"What would do, alone: {would}." if would else "No single change that was tried is enough."
        )
    if answer.free is None:
        return
    free, gain = answer.free, best.step_time_s - answer.free.step_time_s
    if gain <= 1e-9 * best.step_time_s:
        if best.fits:
            yield "With nothing fixed no strategy is faster."
        return
    yield (
        f"With nothing fixed: {degrees(free.plan, answer.scenario)}: {show(free.step_time_s, 's')} a step,"
        f" MFU {free.mfu:.1%}; {gain / best.step_time_s:.1%} less time. Where it gains:"
    )


def degrees(plan: Plan, scenario: PlanScenario) -> str:
    """Return a plan in a line."""
    parts = [
        f"tp {plan.tp}",
        *([f"cp {plan.cp}"] if plan.cp > 1 else []),
        f"pp {plan.pp}",
        *([f"vpp {plan.interleave}"] if plan.interleave > 1 else []),
        f"dp {plan.dp}",
        f"micro-batch {plan.micro_batch}",
        sharding(plan),
        f"recomputing {recomputed(plan, scenario.job.model.layers)}",
    ]
    return ", ".join(parts)


def _run(run: WholeRun) -> Iterator[str]:
    days = run.duration_s / 86400.0
    yield (
        f"The whole run of {run.tokens:.4g} tokens: {run.steps:,.0f} steps, {days:,.1f} days,"
        f" {run.device_hours:.4g} device-hours."
    )
    parts = []
    if run.energy_j is not None:
        parts.append(f"{run.energy_j / 3.6e9:,.4g} MWh at the devices' rated power")
    if run.cost_usd is not None:
        parts.append(f"{run.cost_usd:,.0f} USD")
    if parts:
        yield f"  {', '.join(parts)}. Failures and restarts are not counted."


def differences_table(differences: Mapping[str, float], step: float) -> Table:
    """Return by how much another strategy is faster, one cause a row, the largest first."""
    table = Table(box=None, pad_edge=False)
    for name in ("cause", "less time", "share of the step"):
        table.add_column(name, justify="left" if name == "cause" else "right", no_wrap=True)
    for cause, seconds in sorted(differences.items(), key=lambda pair: -abs(pair[1])):
        if abs(seconds) > 5e-4 * step:
            table.add_row(cause.replace("_", " "), _signed(seconds), f"{seconds / step:+.2%}")
    return table


def _signed(seconds: float) -> str:
    return ("-" if seconds < 0 else "") + show(abs(seconds), "s", 3)
