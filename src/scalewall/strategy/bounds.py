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

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from scalewall.cost import block, matmul, pipeline
from scalewall.cost.assumptions import Assumptions
from scalewall.cost.block import Multiplications
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.workload.operators import Linear
from scalewall.workload.scaling import Workload

Array = Any


@attrs.frozen(kw_only=True)
class Families:
    """Shardings of a block, as flat arrays: what it costs at least, whatever the rest of a strategy is."""

    tp_model: Array
    tp_ff: Array
    ep: Array
    products: Multiplications
    network: Array
    exposed: Array
    wait: Array

    @property
    def width(self) -> Array:
        """Devices that share a block."""
        return self.tp_model * self.tp_ff * self.ep

    def take(self, at: Array) -> Families:
        """Return the families at the indices `at`, in whatever shape `at` has."""
        return Families(
            tp_model=self.tp_model[at],
            tp_ff=self.tp_ff[at],
            ep=self.ep[at],
            products=take(self.products, at),
            network=self.network[at],
            exposed=self.exposed[at],
            wait=self.wait[at],
        )


def take(products: Multiplications, at: Array) -> Multiplications:
    """Return the multiplications of the shardings at the indices `at`."""
    return Multiplications(
        tuple(
            (
                count,
                matmul.Lines(
                    line.useful[at], line.padded[at], tuple((f[at], per[at]) for f, per in line.levels)
                ),
            )
            for count, line in products.counted
        )
    )


def flat(products: Multiplications, shape: tuple[int, ...]) -> Multiplications:
    """Return the multiplications with every array spread over `shape` and flattened."""

    def spread(values: Array) -> Array:
        return np.broadcast_to(values, shape).ravel()

    return Multiplications(
        tuple(
            (
                count,
                matmul.Lines(
                    spread(line.useful),
                    spread(line.padded),
                    tuple((spread(f), spread(per)) for f, per in line.levels),
                ),
            )
            for count, line in products.counted
        )
    )


def families(
    cluster: Cluster, workload: Workload, how: Assumptions, tp_model: Array, tp_ff: Array, ep: Array
) -> Families:
    """Return every combination of the shardings `tp_model`, `tp_ff` and `ep` (one-dimensional)."""
    e, a, b = ep[:, None, None], tp_model[None, :, None], tp_ff[None, None, :]
    shape = (len(ep), len(tp_model), len(tp_ff))
    split = {"tp_model": a[0], "tp_ff": b[0]}
    products = block.multiplications(cluster, workload.block, split, how, workload.whole)
    network = tensor_seconds(cluster.tiers, workload, split, how)
    none = np.zeros(1)
    wait = tensor_wait(cluster.tiers, workload, split)
    overlaps = how.overlap_tensor
    return Families(
        tp_model=np.broadcast_to(a, shape).ravel(),
        tp_ff=np.broadcast_to(b, shape).ravel(),
        ep=np.broadcast_to(e, shape).ravel(),
        products=flat(products, shape),
        network=np.broadcast_to(network if overlaps else none, shape).ravel(),
        exposed=np.broadcast_to(none if overlaps else network, shape).ravel(),
        wait=np.broadcast_to(workload.layers * wait, shape).ravel(),
    )


def block_seconds(cluster: Cluster, workload: Workload, family: Families, tokens: Array) -> Array:
    """Return at least the seconds of a block on `tokens` tokens an expert, all experts of a group."""
    busy = block.multiplication_seconds(cluster, family.products, tokens, whole=False)
    busy = np.maximum(busy, family.network * tokens) + family.exposed * tokens
    return busy * (workload.sparsity / family.ep)


def tensor_seconds(
    tiers: Sequence[Tier], workload: Workload, split: Mapping[str, Array], how: Assumptions
) -> Array:
    """Return at least the tensor-parallel network seconds a token, whatever the layout.

    Beyond tier `t` an axis of degree `p`, `l` of it within, sends ``2·s·(1/l − 1/p)`` bytes over all
    outer tiers together, and the axes' `l` share what the tiers up to `t` join. The slowest tier
    takes at least all bytes over all bandwidth. The best real `l` of two axes is where
    ``s·/l`` is equal for both.
    """
    sent: dict[str, Array] = {}
    for layer in workload.block:
        if isinstance(layer, Linear):
            for size, own, summed in (
                (layer.out_features, layer.out_split, layer.in_split),
                (layer.in_features, layer.in_split, layer.out_split),
            ):
                words = matmul.shard(size, split[own], workload.whole)
                sent[summed] = sent.get(summed, 0.0) + 2.0 * how.word * words
    (p, s), (q, r) = ((split[axis], size) for axis, size in sent.items())
    bound: Array = 0.0
    inner = 1.0
    for t in range(len(tiers)):
        beyond = sum(tier.bandwidth for tier in tiers[t:])
        share = np.minimum(p, np.maximum(1.0, np.sqrt(inner * s / r)))
        other = np.minimum(q, np.maximum(1.0, inner / share))
        share = np.minimum(p, np.maximum(1.0, inner / other))
        carried = s * np.maximum(0.0, 1.0 / share - 1.0 / p) + r * np.maximum(0.0, 1.0 / other - 1.0 / q)
        bound = np.maximum(bound, carried / beyond)
        inner *= tiers[t].size
    return bound


def tensor_wait(tiers: Sequence[Tier], workload: Workload, split: Mapping[str, Array]) -> Array:
    """Return at least the latency of a block's tensor-parallel all-reduces: one tier each."""
    least = min(tier.latency for tier in tiers)
    waits: Array = 0.0
    for layer in workload.block:
        if isinstance(layer, Linear):
            for axis in (layer.in_split, layer.out_split):
                waits = waits + 2.0 * least * np.greater(split[axis], 1)
    return waits


def reduction_seconds(tiers: Sequence[Tier], size: Array, dp: Array, how: Assumptions) -> Array:
    """Return at least the exposed seconds of the data-parallel reduction of `size` bytes, whatever the layout."""
    waits = 2.0 * min(tier.latency for tier in tiers) * np.greater(dp, 1)
    if how.overlap_data:
        return waits
    bound: Array = 0.0
    inner = 1.0
    for t in range(len(tiers)):
        beyond = sum(tier.bandwidth for tier in tiers[t:])
        bound = np.maximum(bound, 2.0 * size * (1.0 / np.minimum(inner, dp) - 1.0 / dp) / beyond)
        inner *= tiers[t].size
    return bound + waits


def exchange_wait(tiers: Sequence[Tier], workload: Workload, pp: Array, ep: Array) -> Array:
    """Return at least the latency of a micro-batch's exchanges: an operation at each border that it crosses."""
    least = min(tier.latency for tier in tiers)
    return 2.0 * least * np.where(ep > 1, workload.layers - 1.0, pp - 1.0)


def one_f_one_b(pp: Array, v: Array, first: Array, last: Array, at: Any) -> Array:
    """Return at least ``(m + idle) · block`` over all `m` from `first` to `last`; `at(m)` is ``block`` there.

    Cut at ``pp/2`` and `pp`. On a piece from `f` to `l`, ``m + idle`` rises and ``block`` falls, so
    ``(f + idle(f)) · block(l)`` is a bound. From `pp` on `idle` is constant, so
    ``f·block(f) + idle·block(l)`` is one by fact 1. For whole counts the pieces may be real.
    """
    half, full = np.clip(pp / 2.0, first, last), np.clip(pp, first, last)
    at_full, at_half = at(full), at(half)
    bounds = [
        np.where(first < pp, (f + pipeline.idle_microbatches(pp, f, v)) * block_at, np.inf)
        for f, block_at in ((first, at_half), (half, at_full))
    ]
    tail = full * at_full + pipeline.idle_microbatches(pp, full, v) * at(last)
    return np.minimum(np.minimum(*bounds), np.where(last >= pp, tail, np.inf))


def least_dp(workload: Workload, how: Assumptions, memory: float, share: Array) -> Array:
    """Return the least real data-parallel degree at which `share` of the parameters fits in `memory`.

    Infinite where not even the weights fit.
    """
    room = memory - how.word * share
    with np.errstate(divide="ignore"):
        return np.where(room > 0.0, how.optimizer * share / np.where(room > 0.0, room, 1.0), math.inf)
