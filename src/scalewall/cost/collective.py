"""Collectives over a hierarchy of networks: bytes a tier carries, and operations it waits for.

A group of ``p = p_0 · p_1 · …`` devices lies over the tiers, `p_i` at tier `i`. In the ideal
fidelity the tiers work at the same time, so the slowest counts, and a tier costs latency only
where it has more than one member.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalewall.hardware.cluster import Tier

Array = Any
Degrees = Sequence[Array]
"""Degree of one axis at each tier, innermost first."""


def in_network(tiers: Sequence[Tier]) -> tuple[bool, ...]:
    """Return for each tier whether its switches reduce."""
    return tuple(tier.in_network_reduction for tier in tiers)


def all_reduce_bytes(size: Array, degrees: Degrees, reducing: Sequence[bool] = ()) -> list[Array]:
    """Return the bytes a device sends at each tier to all-reduce `size` bytes.

    Reduce-scatter inward, all-reduce outward, all-gather back: tier `i` carries
    ``2 · (p_i − 1)/p_i · size/(p_0 · … · p_{i−1})``. Where the switches of a tier do the adding
    (`reducing`, by tier; none if left out), a device sends what it has up once and receives the sum
    once: ``size/(p_0 · … · p_{i−1})`` where ``p_i > 1``. That is never more, equal at two members, and
    half of it at many.

    Source: Thakur et al. 2005; hierarchy as in arXiv 2411.01137; in the network, Graham et al. 2016
    (SHARP).
    """
    carried, left = [], size
    for i, degree in enumerate(degrees):
        if i < len(reducing) and reducing[i]:
            carried.append(np.greater(degree, 1.0) * left)
        else:
            carried.append(2.0 * (degree - 1.0) / degree * left)
        left = left / degree
    return carried


def half_all_reduce_bytes(size: Array, degrees: Degrees) -> list[Array]:
    """Return the bytes a device sends at each tier for an all-gather or a reduce-scatter of `size` bytes."""
    return [carried / 2.0 for carried in all_reduce_bytes(size, degrees)]


def all_to_all_bytes(size: Array, degrees: Degrees) -> list[Array]:
    """Return the bytes a device sends at each tier to exchange `size` bytes with all of its group."""
    return [size * share for share in peer_shares(degrees)[1:]]


def peer_shares(degrees: Degrees) -> list[Array]:
    """Return the chances that a peer chosen at random is the device itself, or lies beyond each tier.

    Tier `t` is the highest that is crossed with probability
    ``1/(p_{t+1} · p_{t+2} · …) − 1/(p_t · p_{t+1} · …)``; the device itself is met with ``1/p``.
    """
    above: list[Array] = [1.0]
    for degree in reversed(degrees):
        above.insert(0, above[0] * degree)
    within = [1.0 / a for a in above]
    return [within[0], *(within[t + 1] - within[t] for t in range(len(degrees)))]


def all_reduce_latency(tiers: Sequence[Tier], degrees: Degrees) -> Array:
    """Return the latency of one all-reduce: a reduce-scatter and an all-gather at each tier with members."""
    waits = [2.0 * tier.latency * np.greater(degree, 1) for tier, degree in zip(tiers, degrees, strict=True)]
    return sum(waits[1:], waits[0])


def slowest(tiers: Sequence[Tier], carried: Sequence[Array]) -> Array:
    """Return the seconds until the slowest tier has carried its bytes."""
    times = [size / tier.bandwidth for tier, size in zip(tiers, carried, strict=True)]
    longest = times[0]
    for time in times[1:]:
        longest = np.maximum(longest, time)
    return longest
