r"""Lower bounds on a step's seconds that hold for whole families of strategies.

Notation: `n = tp·ep·pp·dp` devices; `m` micro-batches of ``b = B/(S·dp·m)`` tokens an expert;
``block(b)`` the seconds of one block on a micro-batch. Two facts carry all bounds.

1. `block` falls as `m` grows and ``m · block(B/(S·dp·m))`` rises: seconds are straight lines in `b`
   with a start that is never negative, and the largest of such lines over `b` falls with `b`.
   (Padding of real dimensions keeps that; padding of whole ones only adds, so it is left out.)
2. A step takes at least ``(L/pp)·(m + idle)·block``, where ``idle = 0`` under zero-bubble, which needs
   ``m ≥ 2·pp``, and ``m + idle ≥ max(m, pp)`` under 1F1B.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from scalewall.cost import block, collective, matmul
from scalewall.cost.assumptions import Assumptions
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.workload.operators import Linear
from scalewall.workload.scaling import Workload

Array = Any

ALMOST = 1.0 + 1e-9  # above rounding error


@attrs.frozen(kw_only=True)
class Families:
    """Shardings of a block, as flat arrays: what it costs at least, whatever the rest of a strategy is.

    Attributes
    ----------
    tp_model, tp_ff, ep
        The degrees.
    start, slope
        A block's multiplications, all experts of a device group, as lines in the tokens an expert:
        (multiplications, lines, families). Each takes as long as its highest line.
    network, exposed
        Tensor-parallel network seconds a token that overlap with these, and that do not.
    wait
        Latency of all blocks' tensor-parallel operations.
    tensor_layout
        Index of the layout of the tensor axes, -1 where it is still open.
    room
        How many devices the other axes may still have within each tier but the last, and all below it.
    """

    tp_model: Array
    tp_ff: Array
    ep: Array
    start: Array
    slope: Array
    network: Array
    exposed: Array
    wait: Array
    tensor_layout: Array
    room: tuple[Array, ...]

    @functools.cached_property
    def width(self) -> Array:
        """Devices that share a block."""
        return self.tp_model * self.tp_ff * self.ep

    def take(self, at: Array) -> Families:
        """Return the families at the indices `at`."""
        arrays = attrs.asdict(self, recurse=False)
        room = arrays.pop("room")
        taken = {name: np.take(values, at, axis=-1) for name, values in arrays.items()}
        return Families(**taken, room=tuple(some[at] for some in room))


def families(
    cluster: Cluster, workload: Workload, how: Assumptions, tp_model: Array, tp_ff: Array, ep: Array
) -> Families:
    """Return every combination of the shardings `tp_model`, `tp_ff` and `ep` (one-dimensional)."""
    e, a, b = ep[:, None, None], tp_model[None, :, None], tp_ff[None, None, :]
    shape = (len(ep), len(tp_model), len(tp_ff))
    split = {"tp_model": a[0], "tp_ff": b[0]}
    experts = workload.sparsity / e
    network = experts * tensor_seconds(cluster.tiers, workload, split, how)
    start, slope = _lines(cluster, workload, how, split)
    inner = np.cumprod([tier.size for tier in cluster.tiers[:-1]])

    def spread(values: Array) -> Array:
        return np.broadcast_to(values, shape).ravel()

    def spread_lines(values: Array) -> Array:
        every = values[:, :, None] * experts
        return np.broadcast_to(every, (*values.shape[:2], *shape)).reshape(*values.shape[:2], -1)

    return Families(
        tp_model=spread(a),
        tp_ff=spread(b),
        ep=spread(e),
        start=spread_lines(start),
        slope=spread_lines(slope),
        network=spread(network if how.overlap_tensor else 0.0),
        exposed=spread(0.0 if how.overlap_tensor else network),
        wait=spread(workload.layers * tensor_wait(cluster.tiers, workload, split)),
        tensor_layout=spread(-1),
        room=tuple(spread(float(size)) for size in inner),
    )


def _lines(
    cluster: Cluster, workload: Workload, how: Assumptions, split: Mapping[str, Array]
) -> tuple[Array, Array]:
    """Return the starts and slopes of a block's multiplications: (multiplications, lines, shardings).

    Arithmetic is two lines: one a token, and one that is flat, for a tile of tokens. Where whole
    dimensions are padded further, these are below the truth.
    """
    device = cluster.device
    shape = np.broadcast_shapes(*(np.shape(p) for p in split.values()))
    starts, slopes = [], []
    for count, line in block.multiplications(cluster, workload.block, split, how, workload.whole).counted:
        levels = [(0.0, line.padded), (line.padded * device.token_tile, 0.0), *line.levels]
        starts.append([np.broadcast_to(count * (device.kernel_latency + at), shape) for at, _ in levels])
        slopes.append([np.broadcast_to(count * per_token, shape) for _, per_token in levels])
    return np.array(starts), np.array(slopes)


def laid_out(
    cluster: Cluster, workload: Workload, how: Assumptions, family: Families, layouts: Array
) -> Families:
    """Return every family under every tensor layout that its degrees allow, with exact network costs.

    `layouts` has the shape (layouts, 2, tiers − 1): the degrees of ``tp_model`` and ``tp_ff`` within each.
    """
    product = layouts.prod(axis=2)
    fits = (family.tp_model[:, None] % product[:, 0] == 0) & (family.tp_ff[:, None] % product[:, 1] == 0)
    at, chosen = np.nonzero(fits)
    some = family.take(at)
    degrees = {
        axis: [*layouts[chosen, i].T, total / product[chosen, i]]
        for i, (axis, total) in enumerate((("tp_model", some.tp_model), ("tp_ff", some.tp_ff)))
    }
    reducing = collective.in_network(cluster.tiers)
    sent = block.tensor_bytes(workload.block, degrees, how, workload.whole, reducing)
    network = collective.slowest(cluster.tiers, sent) * (workload.sparsity / some.ep)
    used = np.cumprod(layouts.prod(axis=1), axis=1)[chosen]
    return attrs.evolve(
        some,
        network=network if how.overlap_tensor else some.network,
        exposed=some.exposed if how.overlap_tensor else network,
        wait=workload.layers * block.tensor_latency(cluster, workload.block, degrees) * np.ones(at.size),
        tensor_layout=chosen,
        room=tuple(room / used[:, t] for t, room in enumerate(some.room)),
    )


def block_seconds(family: Families, tokens: Array) -> Array:
    """Return at least the seconds of a block on `tokens` tokens an expert, all experts of a group."""
    busy = (family.start + family.slope * tokens).max(axis=1).sum(axis=0)
    return np.maximum(busy, family.network * tokens) + family.exposed * tokens


def reduction_bandwidth(tiers: Sequence[Tier]) -> float:
    """Return the bandwidth that plain tiers need to all-reduce at least as fast as `tiers` together.

    Of `s` bytes left, a tier that reduces in its switches carries ``s`` where it has ``p ≥ 2`` members,
    and a plain one ``2·(p − 1)/p·s``, less than twice that. So it takes at least as long as a plain
    tier of twice its bandwidth, and a bound that holds for plain tiers holds with that in its place.
    (Without members both carry nothing; what is left for the tiers beyond is the same.)
    """
    return sum(tier.bandwidth * (2.0 if tier.in_network_reduction else 1.0) for tier in tiers)


def _tensor_bytes(
    workload: Workload, split: Mapping[str, Array], how: Assumptions
) -> list[tuple[Array, Array]]:
    """Return each tensor axis's degree, and twice the bytes a token and block that it all-reduces."""
    sent: dict[str, Array] = {}
    for layer in workload.block:
        if isinstance(layer, Linear):
            for size, own, summed in (
                (layer.out_features, layer.out_split, layer.in_split),
                (layer.in_features, layer.in_split, layer.out_split),
            ):
                words = matmul.shard(size, split[own], workload.whole)
                sent[summed] = sent.get(summed, 0.0) + 2.0 * how.word * words
    return [(split[axis], size) for axis, size in sent.items()]


def tensor_seconds(
    tiers: Sequence[Tier], workload: Workload, split: Mapping[str, Array], how: Assumptions
) -> Array:
    """Return at least the tensor-parallel network seconds a token, whatever the layout.

    Beyond tier `t` an axis of degree `p`, `l` of it within, sends ``2·s·(1/l − 1/p)`` bytes over all
    outer tiers together, and the axes' `l` share what the tiers up to `t` join. The slowest tier
    takes at least all bytes over all bandwidth. The best real `l` of two axes is where
    ``s·/l`` is equal for both.
    """
    (p, s), (q, r) = _tensor_bytes(workload, split, how)
    bound: Array = 0.0
    inner = 1.0
    for t in range(len(tiers)):
        beyond = reduction_bandwidth(tiers[t:])
        share = np.minimum(p, np.maximum(1.0, np.sqrt(inner * s / r)))
        other = np.minimum(q, np.maximum(1.0, inner / share))
        share = np.minimum(p, np.maximum(1.0, inner / other))
        carried = s * np.maximum(0.0, 1.0 / share - 1.0 / p) + r * np.maximum(0.0, 1.0 / other - 1.0 / q)
        bound = np.maximum(bound, carried / beyond)
        inner *= tiers[t].size
    return bound


def leaving_bytes(workload: Workload, split: Mapping[str, Array], how: Assumptions) -> Array:
    """Return at least the bytes a token and block that go beyond a tier if a tensor axis leaves it.

    Then it has at most half its members within, and sends ``2·s·(1/l − 1/p) ≥ 2·s/p`` beyond.
    """
    (p, s), (q, r) = _tensor_bytes(workload, split, how)
    return np.minimum(np.where(p > 1, s / p, math.inf), np.where(q > 1, r / q, math.inf))


def tensor_wait(tiers: Sequence[Tier], workload: Workload, split: Mapping[str, Array]) -> Array:
    """Return at least the latency of a block's tensor-parallel all-reduces: one tier each."""
    least = min(tier.latency for tier in tiers)
    waits: Array = 0.0
    for layer in workload.block:
        if isinstance(layer, Linear):
            for axis in (layer.in_split, layer.out_split):
                waits = waits + 2.0 * least * np.greater(split[axis], 1)
    return waits


def reduction_seconds(
    tiers: Sequence[Tier], size: Array, dp: Array, room: Sequence[Array], how: Assumptions
) -> Array:
    """Return at least the exposed seconds of the data-parallel reduction of `size` bytes.

    As `tensor_seconds`, for one axis that may have all the `room` of each tier but the last.
    """
    waits = 2.0 * min(tier.latency for tier in tiers) * np.greater(dp, 1)
    if how.overlap_data:
        return waits
    bound: Array = 0.0
    for t, inner in enumerate((1.0, *room)):
        beyond = reduction_bandwidth(tiers[t:])
        bound = np.maximum(bound, 2.0 * size * (1.0 / np.minimum(inner, dp) - 1.0 / dp) / beyond)
    return bound + waits


def beside_blocks(
    tiers: Sequence[Tier], workload: Workload, family: Families, replicas: Array, how: Assumptions
) -> tuple[Array, Array]:
    """Return at least a step's seconds beside its blocks and tensor latency, by schedule (1F1B first).

    With ``dp·pp`` of at least `replicas`, `dp` is at least that over the layers. A pipeline of `pp`
    stages divides the reduction `R` by as much, and under 1F1B waits at ``pp − 1`` borders, `w` each:
    ``w·(pp − 1) + R/pp`` is least, ``2·√(w·R) − w``, where ``pp = √(R/w)``, if that is more than 1.
    With experts, some token moves at every interface anyway.
    """
    dp = np.maximum(1.0, replicas / workload.layers)
    waits = 2.0 * min(tier.latency for tier in tiers) * np.greater(dp, 1)
    size = how.word * workload.parameters / family.width
    alone = reduction_seconds(tiers, size, dp, family.room, how) - waits
    spread = alone / workload.layers
    border = 2.0 * min(tier.latency for tier in tiers)
    balanced = np.where(alone > border, 2.0 * np.sqrt(border * alone) - border, alone)
    free = np.where(family.ep > 1, border * (workload.layers - 1.0) + spread, np.maximum(balanced, spread))
    return free + waits, spread + waits


def exchange_wait(tiers: Sequence[Tier], workload: Workload, pp: Array, ep: Array) -> tuple[Array, Array]:
    """Return at least the latency of a micro-batch's exchanges: a part that is fixed, and a part a chunk.

    Without experts a pipeline of `v` chunks a stage crosses ``v·pp − 1`` borders; with them, some
    token moves at every interface.
    """
    least = 2.0 * min(tier.latency for tier in tiers)
    return least * np.where(ep > 1, workload.layers - 1.0, -1.0 * (pp > 1)), least * np.where(
        ep > 1, 0.0, pp * (pp > 1)
    )


def one_f_one_b(
    pp: Array, m: Array, start: Array, end: Array, chunk_wait: Array, least_v: Array, most_v: Array
) -> Array:
    """Return at least a 1F1B step's seconds in its blocks and its borders, over all interleavings.

    With `m` micro-batches or more, a stage's blocks taking `start` seconds for those, and `end` at
    least for any: ``(m + s)·start + (pp − 1 − s)·end/v + chunk_wait·v``, where ``s = max(0, pp − m)``
    are those that the pipeline lacks. The best real `v` is the root of the ratio of the last two.
    """
    lacking = np.maximum(0.0, pp - m)
    idle = np.maximum(0.0, pp - 1.0 - lacking) * end
    with np.errstate(divide="ignore", invalid="ignore"):
        v = np.sqrt(idle / chunk_wait)
    v = np.clip(np.where(chunk_wait > 0.0, v, most_v), least_v, most_v)
    return (m + lacking) * start + idle / v + chunk_wait * v


def least_dp(workload: Workload, how: Assumptions, memory: float, share: Array) -> Array:
    """Return the least real data-parallel degree at which `share` of the parameters fits in `memory`.

    Infinite where not even the weights fit.
    """
    room = memory - how.word * share
    with np.errstate(divide="ignore"):
        return np.where(room > 0.0, how.optimizer * share / np.where(room > 0.0, room, 1.0), math.inf)
