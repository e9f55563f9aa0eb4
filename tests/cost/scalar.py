"""The physics once more, one number at a time: an independent reading of the model's description.

Sections are those of the description: 3 one multiplication, 4 collectives, 5 a block, 6 a step. Plain floats
and loops only, and nothing of `scalewall.cost`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scalewall.cost.assumptions import Assumptions
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.hardware.device import Cache, Device
from scalewall.strategy.space import Strategy
from scalewall.workload.scaling import Workload

Layout = Mapping[str, Sequence[int]]

# 3. One matrix multiplication on one device


def tiles(rows: float, columns: float, tile_bytes: float, word: float) -> tuple[float, float]:
    """The fewest tiles that fit, as near square as the matrix allows; in rows and columns of tiles."""
    n = math.ceil(rows * columns / (tile_bytes / word))
    down = math.sqrt(n * rows / columns)
    if down < 1:
        down = 1.0
    if down > n:
        down = float(n)
    return down, n / down


def boundary(
    cache: Cache, rows: float, columns: float, b: float, gradient: bool, how: Assumptions
) -> tuple[float, float]:
    """Bytes that go into `cache` and out again, and those that cross the network among its instances."""
    weights, right, left = (how.word * n for n in (rows * columns, columns * b, rows * b))
    small = how.fill * cache.capacity
    everything = how.fill * cache.capacity * cache.instances
    down, across = tiles(rows, columns, everything if cache.pooled else small, how.word)
    traffic = down * right + (across if gradient else 2 * across - 1) * left
    if weights + weights > everything:
        traffic += weights * (2 if gradient else 1)
    network = 0.0
    if cache.pooled:
        down, across = tiles(rows, columns, small, how.word)
        if down > 1:
            network += down * right
        if not gradient:
            network += 2 * (across - 1) * left
        elif across > 1:
            network += across * left
    return traffic, network


def matmul_seconds(
    device: Device, rows: float, columns: float, b: float, gradient: bool, how: Assumptions, whole: bool
) -> float:
    """Seconds of one multiplication of a `rows x columns` matrix with `b` tokens."""

    def pad(size: float, tile: int) -> float:
        return math.ceil(size / tile) * tile if whole else max(size, tile)

    flop = 2 * pad(rows, device.tile) * pad(columns, device.tile) * pad(b, device.token_tile)
    peak = device.peak.get("bf16", device.peak.get("fp16"))
    times = [flop / (device.sustained * peak)]
    carried = [0.0] * (len(device.caches) + 1)
    for i, cache in enumerate(device.caches):
        traffic, network = boundary(cache, rows, columns, b, gradient, how)
        carried[i] += traffic
        carried[i + 1] += traffic + network
    if not device.caches:
        carried[0] = how.word * ((2 if gradient else 1) * rows * columns + (rows + columns) * b)
    times.append(carried[0] / device.memory_bandwidth)
    for cache, size in zip(device.caches, carried[1:], strict=True):
        if cache.bandwidth is not None:
            times.append(size / cache.bandwidth)
        elif cache.bytes_per_clock is not None:
            clock = device.clock * device.sustained
            times.append(size / (cache.bytes_per_clock * cache.instances * clock))
    return device.kernel_latency + max(times)


# 4. Collectives over a hierarchy of networks


def all_reduce(size: float, degrees: Sequence[int], tiers: Sequence[Tier]) -> list[float]:
    """Bytes that each tier carries; once up and once down where the switches do the adding."""
    carried = []
    for i, (p, tier) in enumerate(zip(degrees, tiers, strict=True)):
        left = size / math.prod(degrees[:i])
        if tier.in_network_reduction:
            carried.append(left if p > 1 else 0.0)
        else:
            carried.append(2 * (p - 1) / p * left)
    return carried


def all_reduce_latency(tiers: Sequence[Tier], degrees: Sequence[int]) -> float:
    return sum(2 * tier.latency for tier, p in zip(tiers, degrees, strict=True) if p > 1)


def slowest(tiers: Sequence[Tier], carried: Sequence[float]) -> float:
    return max(size / tier.bandwidth for tier, size in zip(tiers, carried, strict=True))


# 5. A block under tensor and expert parallelism


def pipeline_tiers(degrees: Sequence[int], v: int, layers: float) -> dict[int, float]:
    """How many of the ``L − 1`` interfaces are borders of the pipeline at each tier; none: tier -1."""
    spanned = [t for t, p in enumerate(degrees) if p > 1]
    crossed = {}
    for t in spanned:
        above = math.prod(degrees[t + 1 :])
        crossed[t] = v * degrees[t] - 1 if t == spanned[-1] else v * above * (degrees[t] - 1)
    crossed[-1] = layers - v * math.prod(degrees)
    if not spanned:
        crossed[-1] = layers - 1
    return crossed


def expert_tiers(degrees: Sequence[int]) -> dict[int, float]:
    """The chance that the next expert is beyond each tier; on this very device: tier -1."""
    shares = {t: 1 / math.prod(degrees[t + 1 :]) - 1 / math.prod(degrees[t:]) for t in range(len(degrees))}
    return shares | {-1: 1 / math.prod(degrees)}


def exchanges(layout: Layout, v: int, layers: float) -> list[float]:
    """How often a token crosses each tier on its way through all blocks."""
    counts = [0.0] * len(layout["pp"])
    for border, number in pipeline_tiers(layout["pp"], v, layers).items():
        for move, chance in expert_tiers(layout["ep"]).items():
            if max(border, move) >= 0:
                counts[max(border, move)] += number * chance
    return counts


def exchange_latency(tiers: Sequence[Tier], layout: Layout, v: int, layers: float) -> float:
    """What one micro-batch waits at all interfaces: some token always crosses the highest expert tier."""
    highest = max((t for t, p in enumerate(layout["ep"]) if p > 1), default=-1)
    waits = 0.0
    for border, number in pipeline_tiers(layout["pp"], v, layers).items():
        if max(border, highest) >= 0:
            waits += 2 * number * tiers[max(border, highest)].latency
    return waits


def block_multiplications(
    device: Device, w: Workload, d: float, f: float, b: float, how: Assumptions
) -> float:
    """Seconds of a block's six multiplications, forward and backward; `d` and `f` are the shards."""
    forward = [(f, d), (d, f)]
    input_gradient = [(d, f), (f, d)]
    outputs = sum(
        matmul_seconds(device, rows, columns, b, False, how, w.whole)
        for rows, columns in forward + input_gradient
    )
    gradients = sum(matmul_seconds(device, rows, columns, b, True, how, w.whole) for rows, columns in forward)
    return outputs + gradients


def tensor_bytes(tiers: Sequence[Tier], layout: Layout, d: float, f: float, how: Assumptions) -> list[float]:
    """Bytes a token at each tier: two all-reduces over either group."""
    over_model = all_reduce(how.word * f, layout["tp_model"], tiers)
    over_ff = all_reduce(how.word * d, layout["tp_ff"], tiers)
    return [2 * a + 2 * c for a, c in zip(over_model, over_ff, strict=True)]


# 6. A step


def step_seconds(cluster: Cluster, w: Workload, s: Strategy, how: Assumptions) -> float:
    """Seconds of one optimizer step."""
    tiers, layout, m, v = cluster.tiers, s.layout, s.microbatches, s.interleave
    d, f = w.d_model / s.tp_model, w.d_ff / s.tp_ff
    if w.whole:
        d, f = math.floor(d), math.floor(f)
    b = w.batch_tokens / (s.dp * m * w.sparsity)
    experts = w.sparsity / s.ep
    blocks = w.layers / s.pp

    multiplying = experts * block_multiplications(cluster.device, w, d, f, b, how)
    tensor = tensor_bytes(tiers, layout, d, f, how)
    hop = 2 * how.word * w.d_model / (s.tp_model * s.tp_ff)
    exchange = [hop * count / w.layers for count in exchanges(layout, v, w.layers)]
    hidden, exposed = [0.0] * len(tiers), [0.0] * len(tiers)
    for sent, overlaps in ((tensor, how.overlap_tensor), (exchange, how.overlap_exchange)):
        for t, size in enumerate(sent):
            (hidden if overlaps else exposed)[t] += experts * b * size
    busy = max(multiplying, slowest(tiers, hidden)) + slowest(tiers, exposed)

    full = m * blocks * busy
    if s.schedule == "1f1b":
        z = (v - 1) * max(0, s.pp - m)
        bubble = (z + s.pp - 1) / (z + s.pp - 1 + v * m)
        full = full / (1 - bubble)
        block_wait = 2 * all_reduce_latency(tiers, layout["tp_model"])
        block_wait += 2 * all_reduce_latency(tiers, layout["tp_ff"])
        full += w.layers * block_wait + exchange_latency(tiers, layout, v, w.layers)

    held = 2 * w.d_model * w.d_ff * w.layers * w.sparsity / (s.tp_model * s.tp_ff * s.pp * s.ep)
    reduction = slowest(tiers, all_reduce(how.word * held, layout["dp"], tiers))
    if how.overlap_data:
        reduction = max(0.0, reduction - m * blocks * multiplying)
    return full + reduction + all_reduce_latency(tiers, layout["dp"])


def memory_bytes(w: Workload, s: Strategy, how: Assumptions) -> float:
    """Bytes a device holds: weights replicated over `dp`, optimizer state sharded over it."""
    held = 2 * w.d_model * w.d_ff * w.layers * w.sparsity / (s.tp_model * s.tp_ff * s.pp * s.ep)
    return how.word * held + how.optimizer * held / s.dp
