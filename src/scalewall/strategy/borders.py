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
from typing import Any

import attrs
import numpy as np

from scalewall.cost.assumptions import Assumptions
from scalewall.hardware.cluster import Cluster
from scalewall.strategy import bounds
from scalewall.strategy.bounds import ALMOST, Families
from scalewall.workload.operators import Exchange
from scalewall.workload.scaling import Workload

Array = Any

_NONE = 1e-30  # of a device: none, where it divides
_MOST = 1e200  # bytes a second: no limit, where it divides
_TINY = 1e-200  # next to nothing, where it divides


@attrs.frozen(kw_only=True)
class Border:
    """What crosses the outer border of a tier, in device-seconds, and how much longer it waits there.

    Attributes
    ----------
    tier
        Which tier it is that ends there.
    bandwidth
        What all tiers beyond all-reduce with, together.
    exchange
        At each border of a pipeline's stages that lies there, and all tokens cross.
    reduction
        For each part of the replicas but one, if their parts lie beyond.
    operation
        Latency of an operation there and back, in seconds.
    wait
        How much longer that is than at the quickest tier.
    """

    tier: int
    bandwidth: float
    exchange: float
    reduction: float
    operation: float
    wait: float


@attrs.frozen(kw_only=True)
class Borders:
    """The borders of a cluster's tiers at which a workload may have to wait, see `borders`."""

    workload: Workload
    how: Assumptions
    each: tuple[Border, ...]

    def device_seconds(
        self,
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
        family
            Shardings of a block.
        busy
            At least the device-seconds of the blocks, and what goes on beside them that crosses no border.
        replicas
            At least ``dp·pp``.
        most
            The most `dp` and `pp`.
        one_f_one_b
            Whether latency is waited for.
        convex
            Whether the bound has to be convex in `busy`: a weaker one, where the layout is known.
        """
        bound, interfaces, devices = busy, self.workload.layers - 1.0, replicas * family.width
        for border in self.each:
            parts = np.maximum(1.0, replicas * family.ep / self._room(family, border))
            wait = devices * border.wait * one_f_one_b
            least = _least(border, parts, busy, wait, *most)
            if not convex:
                stages = np.maximum(busy, border.exchange * (parts - 1.0)) + wait * (parts - 1.0)
                stages = np.where(parts <= most[1] * ALMOST, stages, math.inf)
                least = np.minimum(least + devices * border.operation, stages)
            if (family.tensor_layout < 0).any():
                tensor = np.maximum(busy + self.workload.layers * wait, self._leaving(family, border))
                least = np.minimum(least, tensor)
            experts = np.maximum(busy + interfaces * wait, border.exchange * interfaces / 2.0)
            experts = np.minimum(least, busy if convex else experts)
            bound = np.maximum(bound, np.where(family.ep > 1, experts, least))
        return bound

    def _room(self, family: Families, border: Border) -> Array:
        """Return how many devices the other axes may have inside, if tensor axes that are open stay there."""
        room, together = family.room[border.tier], family.tp_model * family.tp_ff
        within = np.where(together <= room, room / together, _NONE)
        return np.where(family.tensor_layout < 0, within, room)

    def _leaving(self, family: Families, border: Border) -> Array:
        """Return at least the device-seconds of tensor axes that cross the border."""
        w, split = self.workload, {"tp_model": family.tp_model, "tp_ff": family.tp_ff}
        sent = bounds.leaving_bytes(w, split, self.how) / border.bandwidth
        return w.layers * w.batch_tokens * family.tp_model * family.tp_ff * sent


def borders(cluster: Cluster, workload: Workload, how: Assumptions) -> Borders:
    """Return the borders of each tier but the last, where they may matter.

    Blocks take at least their arithmetic. Where that hides the exchange of as many stages as there are
    blocks, and no latency is longer, stages cross for nothing: what is left is the reduction of replicas
    that have all the room, which is bounded without.
    """
    least = min(tier.latency for tier in cluster.tiers)
    width = sum(layer.width for layer in workload.block if isinstance(layer, Exchange))
    tokens = 2.0 * how.word * width * workload.batch_tokens
    gradients = 0.0 if how.overlap_data else 2.0 * how.word * workload.parameters
    arithmetic = workload.training_flop / workload.steps / cluster.device.sustained_rate(how.precision)
    each = []
    for t in range(1, len(cluster.tiers)):
        beyond = cluster.tiers[t:]
        exchange = tokens / sum(tier.bandwidth for tier in beyond)
        operation = 2.0 * min(tier.latency for tier in beyond)
        if exchange * workload.layers > arithmetic or operation > 2.0 * least:
            bandwidth = min(_MOST, bounds.reduction_bandwidth(beyond))
            border = Border(
                tier=t - 1,
                bandwidth=bandwidth,
                exchange=exchange,
                reduction=gradients / bandwidth,
                operation=operation,
                wait=operation - 2.0 * least,
            )
            each.append(border)
    return Borders(workload=workload, how=how, each=tuple(each))


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
