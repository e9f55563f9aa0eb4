"""Plans of a real run: the best strategies for a model on a cluster, or what a given one would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from scalewall.cost.layer import Setting
from scalewall.cost.training import step
from scalewall.cost.training_memory import MEMORY_ITEMS, STAGES, memory_bytes
from scalewall.errors import NoAnswer
from scalewall.strategy.plans import Found, Plan, PlanSpace, Question, best_plans, divisors, nearest_plan
from scalewall.study.planning import PlanScenario, plan_scenario
from scalewall.units import show

HOUR = 3600.0


@attrs.frozen(kw_only=True)
class WholeRun:
    """A run of so many tokens with one strategy: SI units; None where nothing is known of it."""

    tokens: float
    steps: float
    duration_s: float
    device_hours: float
    energy_j: float | None
    cost_usd: float | None


@attrs.frozen(kw_only=True)
class Planned:
    """One strategy with its times, its bytes on the fullest stage's devices, and what binds."""

    plan: Plan
    step_time_s: float
    mfu: float
    hfu: float
    tokens_per_s: float
    tokens_per_s_per_device: float
    seconds_by_cause: Mapping[str, float]
    memory_bytes: Mapping[str, float]
    memory_capacity: float
    stage: str
    fits: bool
    binds: str
    run: WholeRun | None = None

    @property
    def memory(self) -> float:
        """Bytes in all."""
        return sum(self.memory_bytes.values())


@attrs.frozen(kw_only=True)
class Planning:
    """The answer to a plan: strategies, best first, and how many were priced.

    `free` is the best strategy with nothing fixed, where something is; `remedies` are single changes
    that would make a strategy fit that does not.
    """

    scenario: PlanScenario
    strategies: tuple[Planned, ...]
    priced: int
    fitting: int
    free: Planned | None = None
    remedies: tuple[str, ...] = ()


def plan(scenario: PlanScenario | None = None, **words: Any) -> Planning:
    """Return the best strategies for a model on a cluster, or the one that is given.

    Raises
    ------
    InputError
        If a word is wrong, or what is fixed cannot be.
    NoAnswer
        If no strategy fits the memory; it says what would.
    """
    scenario = scenario or plan_scenario(**words)
    question = scenario.question()
    found = best_plans(question, scenario.top)
    if not found.plans:
        return _unfit(scenario, question, found)
    free = None
    if question.space != attrs.evolve(PlanSpace(), schedule=question.space.schedule):
        open_question = attrs.evolve(question, space=PlanSpace(schedule=question.space.schedule))
        best = best_plans(open_question, 1).plans
        free = priced(scenario, open_question, best[0]) if best else None
    return Planning(
        scenario=scenario,
        strategies=tuple(priced(scenario, question, one) for one in found.plans),
        priced=found.priced,
        fitting=found.fitting,
        free=free,
    )


def priced(scenario: PlanScenario, question: Question, one: Plan) -> Planned:
    """Return `one` with its times and bytes."""
    plans = one.arrays(question.software.sequence_parallel)
    setting = Setting.of(question.job, question.machine, plans, question.practice, question.software)
    found, memory = step(setting), memory_bytes(setting, question.allowance)
    seconds = float(found.seconds)
    items = {name: float(memory[name]) for name in MEMORY_ITEMS}
    capacity = question.machine.cluster.device.memory
    causes = {name: float(value) for name, value in found.by_cause.items()}
    return Planned(
        plan=one,
        step_time_s=seconds,
        mfu=float(found.mfu),
        hfu=float(found.hfu),
        tokens_per_s=float(found.tokens_per_second),
        tokens_per_s_per_device=float(found.tokens_per_second) / one.devices,
        seconds_by_cause=causes,
        memory_bytes=items,
        memory_capacity=capacity,
        stage=STAGES[int(memory["stage"])],
        fits=sum(items.values()) <= capacity * (1.0 + 1e-12),
        binds=max((name for name in causes if name != "arithmetic"), key=lambda name: causes[name]),
        run=None if scenario.tokens is None else whole_run(scenario, question, seconds),
    )


def whole_run(scenario: PlanScenario, question: Question, step_seconds: float) -> WholeRun:
    """Return a run of the scenario's tokens: its power is the device's rated power, all the time."""
    tokens = float(scenario.tokens or 0.0)
    steps = tokens / question.job.tokens
    duration = steps * step_seconds
    hours = duration * question.devices / HOUR
    power = question.machine.cluster.device.power
    return WholeRun(
        tokens=tokens,
        steps=steps,
        duration_s=duration,
        device_hours=hours,
        energy_j=None if power is None else power * duration * question.devices,
        cost_usd=None if scenario.price is None else scenario.price * hours,
    )


def _unfit(scenario: PlanScenario, question: Question, found: Found) -> Planning:
    """Return the strategy that is nearest to fitting, if one is given; else say what would fit."""
    closest = nearest_plan(question)
    if closest is None:
        raise NoAnswer(
            f"Nothing that is left open divides a batch of {question.job.batch:,} over"
            f" {question.devices:,} devices."
        )
    one = priced(scenario, question, closest)
    given = all(getattr(question.space, name) for name in ("tp", "pp"))
    remedies = tuple(_remedies(question, closest))
    if given:
        return Planning(
            scenario=scenario, strategies=(one,), priced=found.priced, fitting=0, remedies=remedies
        )
    need, have = show(one.memory, "B", 3), show(one.memory_capacity, "B", 3)
    fewest = fewest_devices(question)
    would = f" {fewest:,} devices would do." if fewest else ""
    raise NoAnswer(
        f"No strategy fits {question.devices:,} devices: one needs at least {need}, a device has"
        f" {have}.{would}"
    )


def _remedies(question: Question, one: Plan) -> list[str]:
    """Return single changes of a strategy after which it fits."""
    space = question.space
    fixed: dict[str, Any] = {
        "tp": (one.tp,),
        "cp": (one.cp,),
        "pp": (one.pp,),
        "interleave": (one.interleave,),
        "micro_batch": (one.micro_batch,),
        "zero": (one.zero,),
    }
    base = attrs.evolve(space, dp=None, **fixed)
    tried: list[tuple[str, PlanSpace]] = [("recomputing layers", attrs.evolve(base, recompute=None))]
    tried += [(f"ZeRO stage {z}", attrs.evolve(base, zero=(z,), shard=None)) for z in range(one.zero + 1, 4)]
    smaller = [b for b in divisors(one.micro_batch) if b < one.micro_batch]
    tried += [(f"a micro-batch of {b}", attrs.evolve(base, micro_batch=(b,))) for b in reversed(smaller)]
    for name in ("tp", "pp", "cp"):
        degree = getattr(one, name)
        for factor in (2, 4, 8, 16):
            more: dict[str, Any] = {name: (degree * factor,)}
            tried.append((f"{name} {degree * factor}", attrs.evolve(base, **more)))
    found: list[str] = []
    kinds: set[str] = set()
    for text, changed in tried:
        kind = text.split()[0]
        if kind not in kinds and best_plans(attrs.evolve(question, space=changed), 1).plans:
            kinds.add(kind)
            found.append(text)
    return found


def fewest_devices(question: Question, most: int = 1 << 20) -> int | None:
    """Return the least number of devices, of the form ``2^a · 3^b``, on which a strategy fits, or None."""
    sizes: list[int] = sorted({2**a * 3**b for a in range(21) for b in range(3) if 2**a * 3**b <= most})
    for devices in sizes:
        if devices > question.machine.cluster.capacity:
            return None
        if best_plans(attrs.evolve(question, devices=devices), 1).plans:
            return devices
    return None


def min_gpus(scenario: PlanScenario) -> int:
    """Return the fewest devices on which some strategy fits.

    Raises
    ------
    NoAnswer
        If none of the numbers tried is enough.
    """
    fewest = fewest_devices(scenario.question())
    if fewest is None:
        raise NoAnswer(
            "No number of devices is enough: the parts that cannot be split further do not fit one."
        )
    return fewest


def differences(one: Planned, other: Planned) -> dict[str, float]:
    """Return by how many seconds `other` is faster, by cause; they add up to the difference of the steps."""
    return {name: seconds - other.seconds_by_cause[name] for name, seconds in one.seconds_by_cause.items()}
