"""Random small questions: devices, networks and workloads between which every cause may bind.

Times are drawn as multiples of what one device computes at a block, so that arithmetic, memory, network
and latency each matter in some of the draws. A seed makes a question; a plain generator spreads its draws
evenly, where hypothesis would rather try the same few simple ones.
"""

from __future__ import annotations

import math
from random import Random

import attrs
import numpy as np

from scalewall.cost import step
from scalewall.cost.assumptions import Assumptions
from scalewall.cost.step import AXES
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.hardware.device import Cache, Device
from scalewall.strategy.search import Question
from scalewall.strategy.space import SCHEDULES, Space
from scalewall.workload.scaling import Workload
from tests.strategy import brute

BLOCK_SECONDS = 1.0
"""What one device takes for the arithmetic of one block on the whole batch."""

STEPS = 1000.0
MOST_ROWS = 20_000


def power_of_ten(dice: Random, low: float, high: float) -> float:
    return 10.0 ** dice.uniform(low, high)


def workload(dice: Random) -> Workload:
    """Dense and sparse, whole and real, with batches of a few tokens an expert."""
    whole = dice.random() < 0.5
    if whole:
        sparsity = dice.choice([1, 1, 1, 2, 3, 4, 6])
        d_model, d_ff, layers = (
            dice.choice([12, 16, 24, 36, 48]),
            dice.choice([8, 24, 36, 40, 64]),
            dice.choice([1, 2, 3, 4, 6, 8, 12]),
        )
        batch = sparsity * dice.randint(1, 32)
    else:
        sparsity = dice.choice([1, 1, 1, 2, 4, 2.5, 6.75])
        d_model, d_ff, layers = dice.uniform(6, 64), dice.uniform(6, 64), dice.uniform(1, 12)
        batch = sparsity * dice.choice([dice.randint(1, 32), dice.uniform(1, 32)])
    tokens = STEPS * batch
    return Workload(
        training_flop=6 * 2 * d_model * d_ff * layers * tokens,
        d_model=d_model,
        d_ff=d_ff,
        layers=layers,
        sparsity=sparsity,
        batch_tokens=batch,
        tokens=tokens,
        whole=whole,
    )


def device(dice: Random, w: Workload) -> Device:
    """Up to two levels of cache; a main memory that holds it all for now."""
    matrix = 2.0 * w.d_model * w.d_ff
    caches = [
        Cache(
            name=f"level {i}",
            instances=dice.randint(1, 4),
            capacity=matrix * power_of_ten(dice, -2, 1),
            bandwidth=dice.choice([None, power_of_ten(dice, -1, 3) * matrix / BLOCK_SECONDS]),
            pooled=dice.random() < 0.5,
        )
        for i in range(dice.randint(0, 2))
    ]
    sustained = dice.choice([0.5, 0.7, 1.0])
    return Device(
        name="random",
        peak={"bf16": 12 * w.d_model * w.d_ff * w.batch_tokens / BLOCK_SECONDS / sustained},
        sustained=sustained,
        memory=1000 * w.parameters,
        memory_bandwidth=matrix / BLOCK_SECONDS * power_of_ten(dice, -1, 3),
        caches=tuple(caches),
        kernel_latency=dice.choice([0.0, power_of_ten(dice, -4, -0.5)]) * BLOCK_SECONDS,
        tile=dice.choice([1, 2, 16]),
        token_tile=dice.choice([1, 2, 8]),
    )


def distant(dice: Random, near: Cluster) -> Cluster:
    """Three tiers, of which the last is far slower than the others, in bandwidth, latency or both."""
    first, last = near.tiers[0], near.tiers[-1]
    sizes = dice.choice([(2, 2), (2, 4), (3, 2), (2, 6), (4, 2), (1, 4), (4, 1)])
    inner = [attrs.evolve(first, name=f"near {i}", size=size) for i, size in enumerate(sizes)]
    far = attrs.evolve(
        last,
        name="far",
        bandwidth=min(first.bandwidth, last.bandwidth) * power_of_ten(dice, -4, -1),
        latency=dice.choice([last.latency, 0.1 * power_of_ten(dice, -2, 0.5)]),
    )
    return attrs.evolve(near, tiers=(*inner, far))


def cluster(dice: Random, w: Workload) -> Cluster:
    """One to three tiers."""
    unit = 2.0 * w.batch_tokens * max(w.d_model, w.d_ff) / BLOCK_SECONDS
    count = dice.randint(1, 3)
    sizes = [dice.choice([1, 2, 3, 4, 6, 8]) for _ in range(count - 1)]
    tiers = [
        Tier(
            name=f"tier {i}",
            size=size,
            bandwidth=dice.choice([math.inf, *[power_of_ten(dice, -2, 3) * unit for _ in range(4)]]),
            latency=dice.choice([0.0, power_of_ten(dice, -4, -0.5), power_of_ten(dice, -4, -0.5)]),
            in_network_reduction=dice.random() < 0.25,
        )
        for i, size in enumerate([*sizes, dice.choice([math.inf, math.inf, math.inf, 4, 16])])
    ]
    return Cluster(name="random", device=device(dice, w), tiers=tuple(tiers))


POOLS = {
    "dp": [2, 3, 4, 5, 6, 8, 9, 12, 16],
    "tp_model": [2, 3, 4, 6, 8],
    "tp_ff": [2, 3, 4, 6, 8],
    "pp": [2, 3, 4, 5, 6, 8, 12],
    "ep": [2, 3, 4, 6],
}


def space(dice: Random, w: Workload, tiers: Cluster) -> Space:
    """A few degrees an axis, or all that there are, and now and then a lock."""
    fixed: dict[str, tuple[int, ...] | None] = {
        axis: (*dice.sample(pool, dice.randint(1, 3)), *([1] if dice.random() < 0.9 else []))
        for axis, pool in POOLS.items()
    }
    if w.whole:  # what becomes of a matrix that does not divide is not the search's business
        for axis, size in (("tp_model", w.d_model), ("tp_ff", w.d_ff)):
            fixed[axis] = tuple(degree for degree in fixed[axis] or () if size % degree == 0) or (1,)
    pipelines = dice.random() < 0.3
    if pipelines:  # so that pipelines, which tensor parallelism often beats, are at times the best
        fixed |= {"tp_model": (1,), "tp_ff": dice.choice([(1,), (1, 2)]), "ep": (1,), "dp": (1, 2, 3)}
    for axis in ("pp", "ep", "dp"):
        if dice.random() < (0.7 if pipelines else 0.4):
            fixed[axis] = None
    inner = {}
    if dice.random() < 0.15:
        layout, axis = dice.choice(brute.all_layouts(tiers)), dice.choice(AXES)
        inner = {axis: tuple(tier[AXES.index(axis)] for tier in layout)}
    return Space(
        **fixed,
        microbatches=dice.randint(1, 6) if dice.random() < 0.1 else None,
        interleave=dice.randint(1, 3) if dice.random() < 0.1 else None,
        schedules=dice.choice([SCHEDULES, SCHEDULES, ("1f1b",), ("zero-bubble",)]),
        inner=inner,
    )


def question(seed: int, *, far: bool = False) -> tuple[Question, brute.Table]:
    """A question of any objective with all of its strategies, priced; with a `far` tier if that is asked."""
    dice = Random(seed)
    w = workload(dice)
    tiers = distant(dice, cluster(dice, w)) if far else cluster(dice, w)
    how = Assumptions(
        optimizer=dice.choice([8.0, 8.0, 0.0]),
        overlap_tensor=dice.random() < 0.7,
        overlap_exchange=dice.random() < 0.7,
        overlap_data=dice.random() < 0.3,
    )
    strategies = None
    while strategies is None:
        choices = space(dice, w, tiers)
        memory = dice.choice([memory_of_some(dice, w, choices, how), tiers.device.memory])
        asked = Question(
            cluster=attrs.evolve(tiers, device=attrs.evolve(tiers.device, memory=memory)),
            workload=w,
            how=how,
            space=choices,
            top=dice.choice([1, 1, 2, 5]),
        )
        strategies = brute.table(asked, MOST_ROWS)
    if not strategies.allowed.any():
        return asked, strategies
    objective = dice.choice(["mfu", "mfu", "mfu", "devices", "time"])
    n = dice.choice(sorted(set(strategies.devices[strategies.allowed].tolist())))
    devices = int(n) if objective == "time" or dice.random() < 0.15 else None
    limit = duration(dice, w, strategies)
    return attrs.evolve(asked, duration=limit, objective=objective, devices=devices), strategies


def memory_of_some(dice: Random, w: Workload, choices: Space, how: Assumptions) -> float:
    """Return exactly the bytes that some strategy needs, or a little more."""
    some = {axis: dice.choice([*choices.degrees(axis, w), 1.0]) for axis in AXES}
    needed = step.memory_bytes(w, {axis: [degree] for axis, degree in some.items()}, how)
    return float(needed) * dice.choice([1.0, 1.0, 1.5])


def duration(dice: Random, w: Workload, strategies: brute.Table) -> float:
    """Endless, or about what the best or the fastest strategy takes, or just what some strategy takes."""
    seconds, n = strategies.seconds[strategies.allowed], strategies.devices[strategies.allowed]
    best, least, any_ = seconds[np.argmin(n * seconds)], seconds.min(), dice.choice(seconds)
    between = dice.uniform(min(best, least), max(best, least))
    limit = dice.choice(
        [math.inf, math.inf, best, 0.7 * best, least, 0.999 * least, any_, any_, between, between]
    )
    return float(limit) * w.steps * (1.0 + 1e-12)  # rounding must not decide what ends in time
