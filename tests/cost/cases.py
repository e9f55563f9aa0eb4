"""Random strategies to be priced, on small random machines and on those of the catalogue."""

from __future__ import annotations

import math
from random import Random

import attrs

from scalewall.cost.assumptions import Assumptions
from scalewall.cost.step import AXES
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.strategy.space import Strategy
from scalewall.workload.scaling import Scaling, Workload
from tests.strategy import scenarios

Case = tuple[Cluster, Workload, Strategy, Assumptions]

DEVICES = ["h100-sxm", "a100-80gb-sxm", "v100", "mi300x", "tpu-v5p", "gb200", "trainium2"]


def strategy(dice: Random, cluster: Cluster, w: Workload) -> Strategy:
    """Any strategy that exists; whether it fits the memory is not asked."""
    layout: dict[str, list[int]] = {axis: [] for axis in AXES}
    most = {"tp_model": w.d_model, "tp_ff": w.d_ff, "pp": w.layers, "ep": w.sparsity}
    most |= {"dp": w.batch_tokens / w.sparsity}
    for tier in cluster.tiers:
        room = tier.size if math.isfinite(tier.size) else 64
        for axis in dice.sample(AXES, len(AXES)):
            left = min(room, most[axis] / math.prod(layout[axis]))
            ways = [n for n in (1, 1, 2, 3, 4, 8, 16) if n <= left and room % n == 0]
            layout[axis].append(dice.choice(ways))
            room //= layout[axis][-1]
    totals = {axis: math.prod(degrees) for axis, degrees in layout.items()}
    sequences = w.batch_tokens / w.sparsity / totals["dp"]
    m = dice.randint(1, max(1, min(int(sequences), 4 * totals["pp"])))
    zero_bubble = m >= 2 * totals["pp"] and dice.random() < 0.5
    chunks = int(w.layers / totals["pp"]) if totals["pp"] > 1 and not zero_bubble else 1
    return Strategy(
        **totals,
        microbatches=m,
        interleave=dice.randint(1, max(1, chunks)),
        schedule="zero-bubble" if zero_bubble else "1f1b",
        layout={axis: tuple(degrees) for axis, degrees in layout.items()},
    )


def assumptions(dice: Random) -> Assumptions:
    return Assumptions(
        fill=dice.choice([0.5, 0.75, 1.0]),
        word=dice.choice([1.0, 2.0, 4.0]),
        optimizer=dice.choice([0.0, 8.0, 12.0]),
        overlap_tensor=dice.random() < 0.6,
        overlap_exchange=dice.random() < 0.6,
        overlap_data=dice.random() < 0.4,
    )


def small(seed: int) -> Case:
    """A few tokens on a made-up device of up to two caches and three tiers."""
    dice = Random(seed)
    w = scenarios.workload(dice)
    cluster = scenarios.cluster(dice, w)
    if dice.random() < 0.3:
        clocked = [
            attrs.evolve(cache, bandwidth=None, bytes_per_clock=dice.uniform(1, 100) * w.d_model)
            for cache in cluster.device.caches
        ]
        cluster = attrs.evolve(cluster, device=attrs.evolve(cluster.device, clock=2.0, caches=tuple(clocked)))
    return cluster, w, strategy(dice, cluster, w), assumptions(dice)


def large(seed: int) -> Case:
    """A real training run on a device of the catalogue, at times with a third tier."""
    dice = Random(seed)
    cluster = catalogue.load(dice.choice(DEVICES))
    if dice.random() < 0.3:
        inner = [attrs.evolve(tier, size=min(tier.size, 32)) for tier in cluster.tiers]
        far = Tier(name="continent", bandwidth=1e8, latency=1e-3)
        cluster = attrs.evolve(cluster, tiers=(*inner, far))
    scaling = Scaling(sparsity=dice.choice(["dense", "baseline"]))
    w = scaling.workload(10 ** dice.uniform(22, 31))
    if dice.random() < 0.5:
        whole = {n: round(getattr(w, n)) for n in ("d_model", "d_ff", "layers", "sparsity", "batch_tokens")}
        w = attrs.evolve(w, **whole, whole=True)
        tokens = 20 * w.parameters
        w = attrs.evolve(w, tokens=tokens, training_flop=6 * w.parameters / w.sparsity * tokens)
    return cluster, w, strategy(dice, cluster, w), assumptions(dice)
