"""Plans of a real run: the best strategies for a model on a cluster, or what a given one would do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs

from scalewall.cost.layer import WORD, Setting
from scalewall.cost.training import step
from scalewall.cost.training_memory import MEMORY_ITEMS, STAGES, memory_bytes
from scalewall.errors import NoAnswer
from scalewall.strategy.plans import (
    Found,
    Plan,
    PlanSpace,
    Question,
    best_plans,
    divisors,
    fixed_degrees,
    nearest_plan,
)
from scalewall.study.planning import PlanScenario, plan_scenario
from scalewall.units import show

HOUR = 3600.0
OPTIMIZER = 12.0
"""Bytes of a parameter's 32-bit weight and both moments."""


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
    that would make a strategy fit that does not; `min_gpus` the fewest devices that fit, if asked.
    """

    scenario: PlanScenario
    strategies: tuple[Planned, ...]
    priced: int
    fitting: int
    free: Planned | None = None
    remedies: tuple[str, ...] = ()
    min_gpus: int | None = None

    @property
    def differences(self) -> dict[str, float] | None:
        """By how many seconds `free` is faster than the best strategy, by cause; None without `free`."""
        return None if self.free is None else differences(self.strategies[0], self.free)


def plan(scenario: PlanScenario | None = None, **words: Any) -> Planning:
    """Return the best strategies for a model on a cluster, or the one that is given.

    If `tp` and `pp` are given and nothing fits, the strategy that is nearest to it, which says so.

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
    free = _free(scenario, question)
    if not found.plans:
        return _unfit(scenario, question, found, free)
    return Planning(
        scenario=scenario,
        strategies=tuple(priced(scenario, question, one) for one in found.plans),
        priced=found.priced,
        fitting=found.fitting,
        free=free,
    )


def _free(scenario: PlanScenario, question: Question) -> Planned | None:
    """Return the best strategy of the same schedule with nothing fixed; None if nothing is fixed or fits."""
    space = PlanSpace(schedule=question.space.schedule)
    if question.space == space:
        return None
    question = attrs.evolve(question, space=space)
    best = best_plans(question, 1).plans
    return priced(scenario, question, best[0]) if best else None


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


def _unfit(scenario: PlanScenario, question: Question, found: Found, free: Planned | None) -> Planning:
    """Return the strategy that is nearest to fitting, if one is given; else say what would fit."""
    closest = nearest_plan(question)
    if closest is None:
        fixed = "" if question.space == PlanSpace() else " and what is fixed"
        hint = " With nothing fixed there is one that fits." if free else ""
        raise NoAnswer(
            f"No degrees divide {question.devices:,} devices, the model's heads and layers, and a batch of"
            f" {question.job.batch:,}{fixed}.{hint}"
        )
    one = priced(scenario, question, closest)
    if scenario.tp and scenario.pp:
        return Planning(
            scenario=scenario,
            strategies=(one,),
            priced=found.priced,
            fitting=0,
            free=free,
            remedies=tuple(_remedies(question, closest)),
        )
    need, have = show(one.memory, "B", 3), show(one.memory_capacity, "B", 3)
    more, shorter = fewest_devices(question, question.devices + 1), _longest_sequence(question)
    would = [f"{more:,} devices"] if more else []
    would += [f"sequences of {shorter:,} tokens"] if shorter else []
    would += ["a plan with nothing fixed"] if free else []
    raise NoAnswer(
        f"No strategy fits {question.devices:,} devices: one needs at least {need}, a device has {have}."
        + (f" What would do: {', or '.join(would)}." if would else "")
    )


def _longest_sequence(question: Question, least: int = 256) -> int | None:
    """Return the longest sequence, halving what is asked for, with which a strategy fits."""
    length = question.job.sequence // 2
    while length >= least:
        shorter = attrs.evolve(question, job=attrs.evolve(question.job, sequence=length))
        if best_plans(shorter, 1).plans:
            return length
        length //= 2
    return None


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
    for factor in (2, 4, 8, 16):
        larger = attrs.evolve(question, space=base, devices=question.devices * factor)
        if best_plans(larger, 1).plans:
            return [*found, f"{larger.devices:,} devices"]
    return found


def fewest_devices(question: Question, least: int = 1, most: int = 1 << 20) -> int | None:
    """Return the least number of devices on which a strategy fits, or None.

    Tried are the numbers ``2^a · 3^b``, `b` at most 2, times the degrees that are fixed.
    """
    fixed = fixed_degrees(question.space)
    degrees = (fixed.get(axis, ()) for axis in ("tp", "cp", "dp", "pp"))
    group: int = math.prod(values[0] for values in degrees if len(values) == 1)
    sizes: set[int] = {group * (1 << a) * 3**b for a in range(most.bit_length()) for b in (0, 1, 2)}
    # However it is split, all devices together hold the weights, the optimizer's states and the gradients.
    job, room = question.job, question.machine.cluster.device.memory
    enough = (WORD + OPTIMIZER) * job.model.parameters / room
    for devices in sorted(size for size in sizes if least <= size <= most):
        if devices > question.machine.cluster.capacity:
            return None
        if devices >= enough and best_plans(attrs.evolve(question, devices=devices), 1).plans:
            return devices
    return None


def fewest(scenario: PlanScenario) -> Planning:
    """Return the plan on the fewest devices on which a strategy fits, whatever the scenario's own number.

    Raises
    ------
    NoAnswer
        If none of the numbers tried is enough.
    """
    everything = attrs.evolve(scenario, gpus=1, tp=None, cp=None, dp=None, pp=None, vpp=None, shard=None)
    found = fewest_devices(attrs.evolve(everything.question(), space=scenario.space))
    if found is None:
        raise NoAnswer(
            "No number of devices is enough: what is not split further, or is fixed, does not fit one."
        )
    return attrs.evolve(plan(attrs.evolve(scenario, gpus=found)), min_gpus=found)


def differences(one: Planned, other: Planned) -> dict[str, float]:
    """Return by how many seconds `other` is faster, by cause; they add up to the difference of the steps."""
    return {name: seconds - other.seconds_by_cause[name] for name, seconds in one.seconds_by_cause.items()}
