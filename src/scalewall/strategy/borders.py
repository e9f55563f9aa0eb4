r"""Lower bounds on what must cross the border of a tier, where a strategy does not fit inside.

Of the devices beyond a border, replicas, stages and experts have ``k`` times as many as inside, whatever
the layout: ``dp'·pp'·ep' ≥ k``, primes for the parts beyond. Times `n` devices, and over all bandwidth
beyond together,

- a pipeline sends ``e·(pp' − 1)`` device-seconds a step, which may hide behind its blocks, with
  ``e = 2·word·width·B / bandwidth``, and under 1F1B waits at ``pp' − 1`` borders;
- the data-parallel reduction takes ``g·(dp' − 1)``, with ``g = 2·word·N / bandwidth``.

One shrinks where the other grows. So with blocks of `busy` device-seconds a step takes at least the
least over real ``pp'`` of ``max(busy, e·(pp' − 1)) + wait·(pp' − 1) + g·(k/pp' − 1)``: unless tensor axes
or experts cross the border, which is bounded on its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from scalewall.cost.assumptions import Assumptions
from scalewall.hardware.cluster import Cluster
from scalewall.strategy.bounds import ALMOST, Families, reduction_bandwidth
from scalewall.workload.operators import Exchange
from scalewall.workload.scaling import Workload

Array = Any

_TINY = 1e-200  # next to nothing, where it divides


@attrs.frozen(kw_only=True)
class Border:
    """What crosses the outer border of a tier, in device-seconds, and how much longer it waits there.

    Attributes
    ----------
    exchange
        At each border of a pipeline's stages that lies there, and all tokens cross.
    reduction
        For each part of the replicas but one, if their parts lie beyond.
    operation
        Latency of an operation there and back, in seconds.
    wait
        How much longer that is than at the quickest tier.
    """

    exchange: float
    reduction: float
    operation: float
    wait: float


def borders(cluster: Cluster, workload: Workload, how: Assumptions) -> list[Border]:
    """Return the borders of each tier but the last."""
    least = min(tier.latency for tier in cluster.tiers)
    width = sum(layer.width for layer in workload.block if isinstance(layer, Exchange))
    tokens = 2.0 * how.word * width * workload.batch_tokens
    gradients = 0.0 if how.overlap_data else 2.0 * how.word * workload.parameters
    return [
        Border(
            exchange=tokens / sum(tier.bandwidth for tier in beyond),
            reduction=gradients / reduction_bandwidth(beyond),
            operation=2.0 * min(tier.latency for tier in beyond),
            wait=2.0 * (min(tier.latency for tier in beyond) - least),
        )
        for beyond in (cluster.tiers[t:] for t in range(1, len(cluster.tiers)))
    ]


def device_seconds(
    borders: Sequence[Border],
    workload: Workload,
    family: Families,
    busy: Array,
    *,
    replicas: Array,
    most: tuple[Array, Array],
    one_f_one_b: Array | bool,
    convex: bool = False,
) -> Array:
    """Return at least the device-seconds of a step, given its blocks', with what crosses each border.

    Parameters
    ----------
    borders, workload, family
        What is asked, and shardings.
    busy
        At least the device-seconds of the blocks, and what goes on beside them that crosses no border.
    replicas
        At least ``dp·pp``.
    most
        The most `dp` and `pp`.
    one_f_one_b
        Whether latency is waited for.
    convex
        Whether the bound has to be convex in `busy`: one that is weaker, of families whose layout is known.
    """
    bound, interfaces, devices = busy, workload.layers - 1.0, replicas * family.width
    for border, share, leaving in zip(borders, family.share, family.leaving, strict=True):
        parts, wait = np.maximum(1.0, replicas * family.ep / share), devices * border.wait * one_f_one_b
        least = _least(border, parts, busy, wait, *most)
        if not convex:
            stages = np.maximum(busy, border.exchange * (parts - 1.0)) + wait * (parts - 1.0)
            stages = np.where(parts <= most[1] * ALMOST, stages, math.inf)
            least = np.minimum(least + devices * border.operation, stages)
        least = np.minimum(least, np.maximum(busy + workload.layers * wait, leaving))
        experts = busy if convex else np.maximum(busy + interfaces * wait, border.exchange * interfaces / 2.0)
        bound = np.maximum(bound, np.where(family.ep > 1, np.minimum(least, experts), least))
    return bound


def _least(border: Border, parts: Array, busy: Array, wait: Array, most_dp: Array, most_pp: Array) -> Array:
    """Return at least the device-seconds of a step whose `parts` beyond a border are replicas and stages.

    Convex in `busy`, and rising with it and with `parts`. Infinite where there cannot be so many.
    """
    e, g, k = border.exchange, border.reduction, parts
    low, high = np.maximum(1.0, k / most_dp), np.minimum(k, most_pp)
    pp = np.sqrt(g * k / np.maximum(wait, _TINY))  # the best there is while blocks hide the exchange
    pp = np.minimum(pp, 1.0 + busy / max(e, _TINY))
    pp = np.maximum(pp, np.sqrt(g * k / np.maximum(wait + e, _TINY)))
    pp = np.minimum(np.maximum(pp, low), high)
    crossed = pp - 1.0
    seconds = np.maximum(busy, e * crossed) + wait * crossed + g * (k / pp - 1.0)
    return np.where(low <= high * ALMOST, seconds, math.inf)
