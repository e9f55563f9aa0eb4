"""Seconds of a collective by size, members, tier and algorithm: the `full` fidelity's networks.

The law is that of a message cut into pieces and passed along a pipeline. With `A` the latency of the
whole path and `W` the time its bytes need at the achieved bandwidth, pieces of the best size give

    t = A + W + 2·fill·sqrt(A·W),                              fill = 1: (sqrt(A) + sqrt(W))²

the middle ground between latency and bandwidth that measurements show over some three decades of
size. `fill` is what is seen of that term in practice: less than all inside a node, more where long
messages go by a protocol of longer hops than short ones. `A` is a base plus a hop for every step: `p − 1`
of them around a ring, or the levels of a tree, ``log2 p``, where they are fewer (all-reduce). So a
larger group is slower at every size, with an efficiency that falls as ``sqrt(A/W)``: what is measured
from 4 to 512 nodes (all-reduce) and to 128 (reduce-scatter, a ring, which loses more).

Over several tiers the parts are pipelined: latencies add, of the bandwidths the slowest counts. Tier
`i` carries the bytes of a ring through all `p` members, shared by the ``p_0 · … · p_{i−1}`` devices of a
domain, each with its own link. Where a tier joins just two, an all-reduce is an exchange of sums:
half of that. Switches that reduce take each byte once and hand each sum out once.

Constants by class of interconnect: `scalewall.hardware.links`. Sources: the pipeline's law, e.g.
Thakur et al. 2005, section 5; ring, tree and NVLS as in NCCL.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from scalewall.cost.collective import Degrees, peer_shares
from scalewall.hardware.cluster import Cluster
from scalewall.hardware.links import Curve, LinkClass, LinkClasses, curve_for, load_links
from scalewall.units import quantity

Array = Any
Links = Sequence["Link"]


@attrs.frozen(kw_only=True)
class Link:
    """One tier of network as a device sees it: nominal bandwidth, and the curves of its class."""

    bandwidth: float = quantity("B/s", "of one device, in each direction")
    in_network_reduction: bool = attrs.field(
        default=False, metadata={"doc": "whether the tier's switches add up what an all-reduce sends"}
    )
    curves: LinkClass


def links(cluster: Cluster, classes: LinkClasses | None = None) -> tuple[Link, ...]:
    """Return the tiers of `cluster`, innermost first, each with the curves of its class."""
    classes = load_links() if classes is None else classes
    return tuple(
        Link(
            bandwidth=tier.bandwidth,
            in_network_reduction=tier.in_network_reduction,
            curves=curve_for(cluster, i, classes),
        )
        for i, tier in enumerate(cluster.tiers)
    )


def all_reduce_seconds(links: Links, degrees: Degrees, size: Array) -> Array:
    """Seconds to all-reduce a buffer of `size` bytes, by ring, tree or the switches, whichever is faster.

    Never below ``2 · (p_i − 1)/p_i · size/(p_0 · … · p_{i−1})`` over the bandwidth of any tier, unless its
    switches reduce (NVLS, SHARP): then never below half of that at many members.
    """
    curves = [link.curves.all_reduce for link in links]
    ringed = _seconds(links, curves, degrees, _reduced(links, curves, degrees, size))
    switch = links[0].curves.in_switch
    if switch is None:
        return ringed
    curves[0] = switch
    carried = _reduced(links, curves, degrees, size)
    carried[0] = size
    # A domain that has one member of the group has nothing for its switch to add up.
    return np.where(
        np.greater(degrees[0], 1.0),
        np.minimum(ringed, _seconds(links, curves, degrees, carried)),
        ringed,
    )


def all_gather_seconds(links: Links, degrees: Degrees, size: Array) -> Array:
    """Seconds to gather `size` bytes on every device, each of which holds its part of them: a ring."""
    curves = [link.curves.all_gather for link in links]
    return _seconds(links, curves, degrees, _ringed(curves, degrees, size))


def reduce_scatter_seconds(links: Links, degrees: Degrees, size: Array) -> Array:
    """Seconds to add up buffers of `size` bytes and leave each device its part of the sum: a ring."""
    curves = [link.curves.reduce_scatter for link in links]
    return _seconds(links, curves, degrees, _ringed(curves, degrees, size))


def all_to_all_seconds(links: Links, degrees: Degrees, size: Array) -> Array:
    """Seconds in which every device sends an equal part of its `size` bytes to each of its group.

    A tier carries what goes to the peers beyond it; a step is a message to one of them.
    """
    curves = [link.curves.all_to_all for link in links]
    shares = peer_shares(degrees)
    members: Array = 1.0
    latency: Array = 0.0
    base: Array = 0.0
    carried = []
    for curve, degree, share in zip(curves, degrees, shares[1:], strict=True):
        latency = latency + curve.hop * (members * (degree - 1.0))
        base = np.maximum(base, curve.base * np.greater(degree, 1.0))
        carried.append(size * share)
        members = members * degree
    carried[0] = carried[0] + curves[0].own * size * shares[0] * np.greater(degrees[0], 1.0)
    return _pipelined(links, curves, base + latency, carried) * np.greater(members, 1.0)


def send_seconds(links: Links, tier: Array, size: Array) -> Array:
    """Seconds to send `size` bytes to one peer across tier `tier`; none where `tier` is negative."""
    result: Array = 0.0
    for i, link in enumerate(links):
        curve = link.curves.send
        times = _law(curve, curve.base, size / (curve.share * link.bandwidth))
        result = np.where(np.equal(tier, i), times, result)
    return result


def _ringed(curves: Sequence[Curve], degrees: Degrees, size: Array) -> list[Array]:
    """Return the bytes a device sends at each tier when rings through all members pass `size` bytes once.

    ``(p − 1)/p · size/(p_0 · … · p_{i−1})`` at a tier with members, and at the innermost what its own part
    costs.
    """
    members: Array = 1.0
    for degree in degrees:
        members = members * degree
    carried, left = [], size
    for curve, degree in zip(curves, degrees, strict=True):
        carried.append((members - 1.0 + curve.own) / members * left * np.greater(degree, 1.0))
        left = left / degree
    return carried


def _reduced(links: Links, curves: Sequence[Curve], degrees: Degrees, size: Array) -> list[Array]:
    """Return the bytes a device sends at each tier to all-reduce `size` bytes.

    Twice a ring's; but ``size/(p_0 · … · p_{i−1})`` where an outer tier joins two or its switches reduce.
    """
    carried, left = [], size
    for i, (link, degree, once) in enumerate(
        zip(links, degrees, _ringed(curves, degrees, size), strict=True)
    ):
        single = np.equal(degree, 2.0) | link.in_network_reduction if i > 0 else link.in_network_reduction
        carried.append(np.where(single, np.minimum(left, 2.0 * once), 2.0 * once))
        left = left / degree
    return carried


def _seconds(links: Links, curves: Sequence[Curve], degrees: Degrees, carried: Sequence[Array]) -> Array:
    """Return the seconds of a collective that goes step by step through the members of each tier.

    A ring through all ``p`` members takes ``p − 1`` steps, ``(p_i − 1)·p_{i+1}·p_{i+2}·…`` of them at tier
    `i`. Down a tree each tier is passed once.
    """
    latency: Array = 0.0
    base: Array = 0.0
    beyond: Array = 1.0
    for curve, degree in zip(reversed(curves), reversed(degrees), strict=True):
        base = np.maximum(base, curve.base * np.greater(degree, 1.0))
        around = degree - 1.0
        if math.isinf(curve.level):
            latency = latency + curve.hop * (around * beyond)
        else:
            latency = latency + curve.hop * np.minimum(around, curve.level * np.log2(degree))
        beyond = beyond * degree
    return _pipelined(links, curves, base + latency, carried)


def _pipelined(links: Links, curves: Sequence[Curve], latency: Array, carried: Sequence[Array]) -> Array:
    """Return the seconds of the slowest tier, all of them filled from the same latency."""
    times = [
        _law(curve, latency, size / (curve.share * link.bandwidth))
        for link, curve, size in zip(links, curves, carried, strict=True)
    ]
    longest = times[0]
    for time in times[1:]:
        longest = np.maximum(longest, time)
    return longest


def _law(curve: Curve, latency: Array, wire: Array) -> Array:
    """Return ``A + W + 2·fill·sqrt(A·W)``."""
    return latency + wire + 2.0 * curve.fill * np.sqrt(latency * wire)
