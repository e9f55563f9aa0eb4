"""One point of a curve: the best run of a training compute, what it takes and what binds it."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np

from scalewall.cost import step
from scalewall.errors import InputError, NoAnswer
from scalewall.hardware.cluster import Cluster
from scalewall.schema import whole
from scalewall.strategy.search import Certificate, Question, search
from scalewall.strategy.space import Strategy, smooth_numbers
from scalewall.study.scenario import Scenario
from scalewall.units import parse, show
from scalewall.workload.scaling import MOST_FLOP, Workload

MOST_TOP = 1000

GROUPS = {
    "arithmetic": ("arithmetic", "padding"),
    "memory bandwidth": ("memory_bandwidth",),
    "cache bandwidth": ("cache_bandwidth",),
    "network bandwidth": ("network_bandwidth", "data_parallel_bandwidth"),
    "latency": ("kernel_latency", "network_latency", "data_parallel_latency", "pipeline_bubble"),
}
"""What can bind, and the causes of seconds that each gathers. A pipeline's bubble counts as latency:
it is there because a micro-batch passes the stages one after another, however fast each of them is."""


@attrs.frozen(kw_only=True)
class Point:
    """The best run of one training compute: how it is parallelised, how long it takes and why."""

    workload: Workload
    strategy: Strategy
    mfu: float
    duration_s: float
    step_seconds: float
    seconds_by_cause: dict[str, float]
    memory_bytes: float
    binding: str
    certificate: Certificate | None = None

    @property
    def training_flop(self) -> float:
        """Training compute in FLOP."""
        return self.workload.training_flop

    @property
    def n_devices(self) -> int:
        """Number of devices."""
        return self.strategy.devices


def best_point(
    scenario: Scenario,
    cluster: Cluster,
    training_flop: float,
    hints: Iterable[Strategy] = (),
    tolerance: float = 0.0,
) -> Point | None:
    """Return the best run of `training_flop` on `cluster`, or None if none ends in time.

    `hints` only save time; the score may miss the optimum by the share `tolerance`.
    """
    asked = question(scenario, cluster, training_flop, tolerance)
    result = search(asked, tuple(hints)) if asked else None
    if asked is None or result is None or result.best is None:
        return None
    return price_point(scenario, cluster, asked.workload, result.best, result.certificate)


def best_points(
    scenario: Scenario,
    training_flop: float | str,
    *,
    devices: float | str | None = None,
    top: int | str = 5,
    clusters: Sequence[Cluster] | None = None,
) -> dict[str, list[Point]]:
    """Return by device the best runs of `training_flop`, of different degrees, best first.

    Parameters
    ----------
    scenario
        What is asked.
    training_flop
        Training compute in FLOP, or a text of it.
    devices
        If given, the fastest runs on just as many devices, deadline or not.
    top
        How many.
    clusters
        On what, if not on the scenario's devices.

    Raises
    ------
    NoAnswer
        If no strategy on a device ends in time.
    """
    flop = parse(training_flop, "FLOP", "training_flop")
    count = whole(top, "top", 1, MOST_TOP)
    number = None if devices is None else _count(devices)
    found: dict[str, list[Point]] = {}
    for cluster in scenario.clusters if clusters is None else clusters:
        asked = question(scenario, cluster, flop)
        if asked is None:
            must = f"enough for a model of one block and at most {MOST_FLOP:g} FLOP"
            raise InputError("training_flop", must, training_flop)
        if number is not None:
            asked = attrs.evolve(asked, objective="time", devices=number, duration=math.inf)
        result = search(attrs.evolve(asked, top=count))
        if not result.strategies:
            raise NoAnswer(_why_none(asked, scenario.duration))
        found[cluster.name] = [
            price_point(scenario, cluster, asked.workload, strategy, result.certificate)
            for strategy in result.strategies
        ]
    return found


def _count(devices: float | str) -> int:
    try:
        return whole(parse(devices, "1", "devices"), "devices")
    except InputError as error:
        raise InputError("devices", error.must, devices) from None


def _why_none(asked: Question, duration: float) -> str:
    """Return why a question has no answer, in a sentence."""
    cluster, flop = asked.cluster, asked.workload.training_flop
    if not asked.space.size(cluster, asked.workload):
        return f"The fixed parts leave no strategy for a run of {flop:.3g} FLOP on {cluster.name}."
    if asked.devices is None:
        most = cluster.capacity
        where = "any number of" if math.isinf(most) else f"up to {most:,.0f}"
        when = show(duration, "s")
        return f"No strategy on {where} {cluster.name} ends a run of {flop:.3g} FLOP within {when}."
    near = smooth_numbers(4.0 * asked.devices)
    at = bisect.bisect_left(near, asked.devices)
    reason = f"No strategy takes just {asked.devices:.6g} {cluster.name} for a run of {flop:.3g} FLOP."
    if near[at] != asked.devices:
        around = f"{near[at - 1]:,} and {near[at]:,}" if at else f"{near[at]:,}"
        reason += f" Degrees are of the form 2^a·3^b unless fixed, as are {around}."
    return reason


def question(
    scenario: Scenario, cluster: Cluster, training_flop: float, tolerance: float = 0.0
) -> Question | None:
    """Return what to search for a run of `training_flop`; None if that is too little for one block."""
    try:
        workload = scenario.scaling.workload(training_flop)
    except InputError as error:
        if error.field == "training_flop":
            return None
        raise
    return Question(
        cluster=cluster,
        workload=workload,
        how=scenario.how,
        duration=scenario.duration,
        objective=scenario.objective,
        space=scenario.space,
        tolerance=tolerance,
    )


def price_point(
    scenario: Scenario,
    cluster: Cluster,
    workload: Workload,
    strategy: Strategy,
    certificate: Certificate | None = None,
) -> Point:
    """Return what a run of `workload` under `strategy` takes."""
    parts = step.parts(cluster, workload, strategy.arrays, scenario.how)
    seconds = float(parts.seconds[0])
    causes = step.seconds_by_cause(cluster, workload, parts)
    by_cause = {cause: float(np.ravel(time)[0]) for cause, time in causes.items()}
    mfu = float(step.mfu(cluster, workload, strategy.devices, seconds, scenario.how))
    return Point(
        workload=workload,
        strategy=strategy,
        mfu=mfu,
        duration_s=seconds * workload.steps,
        step_seconds=seconds,
        seconds_by_cause=by_cause,
        memory_bytes=float(np.ravel(step.memory_bytes(workload, strategy.arrays.degrees, scenario.how))[0]),
        binding=binding(by_cause, mfu >= scenario.threshold * cluster.device.sustained),
        certificate=certificate,
    )


def binding(seconds_by_cause: dict[str, float], efficient: bool) -> str:
    """Return which of `GROUPS` binds: arithmetic while a run is efficient, else the costliest other one."""
    if efficient:
        return "arithmetic"
    costs = {group: sum(seconds_by_cause[c] for c in causes) for group, causes in GROUPS.items()}
    return max((group for group in costs if group != "arithmetic"), key=costs.__getitem__)


def trace(
    scenario: Scenario, cluster: Cluster, computes: Sequence[float], known: Iterable[Point] = ()
) -> Iterator[tuple[int, Point | None]]:
    """Yield the place and the best run of each of `computes`, coarse first: ends and middles, then between.

    So a curve can be drawn early and refined. Runs that are `known`, and those found on the way,
    serve as hints; a compute that is known already is not searched again. Hints only save time.
    """
    done = {point.training_flop: point for point in known}
    for place in coarse_first(len(computes)):
        flop = float(computes[place])
        if flop not in done:
            near = sorted(done, key=lambda other: abs(np.log(other / flop)))[:2]
            point = best_point(scenario, cluster, flop, [done[other].strategy for other in near])
            if point is None:
                yield place, None
                continue
            done[flop] = point
        yield place, done[flop]


def coarse_first(n: int) -> list[int]:
    """Return the whole numbers below `n`: the last and the first, then every middle of what is there."""
    order, gap = [n - 1, 0] if n > 1 else [0], n - 1
    while gap > 1:
        gap = (gap + 1) // 2
        order += [place for place in range(0, n - 1, gap) if place not in set(order)]
    return order
