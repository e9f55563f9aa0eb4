"""Parallelisation plans of a real model: arrays of degrees, and how groups lie over the network's tiers."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from scalewall.hardware.cluster import Tier

Array = Any

PLACED = ("tp", "cp", "dp", "pp")
"""Axes of parallelism, from the one whose ranks lie closest together to the farthest (Megatron-LM)."""


@attrs.frozen(kw_only=True)
class Plans:
    """Plans; every field is a number or an array, and shapes broadcast against each other.

    A strategy that is all numbers is one plan. `shard` is over how many of the ``dp·cp`` ranks that
    hold the same weights ZeRO shards (all for plain ZeRO and FSDP, fewer for hybrid sharding, whose
    groups are innermost);
    `recomputed` the share of layers whose activations are recomputed in full; `selective` whether
    the others recompute their attention core.
    """

    tp: Array = 1
    cp: Array = 1
    dp: Array = 1
    pp: Array = 1
    interleave: Array = 1
    micro_batch: Array = 1
    zero: Array = 0
    shard: Array = 1
    recomputed: Array = 0.0
    selective: Array = False
    sequence_parallel: Array = True
    zero_bubble: Array = False

    @property
    def devices(self) -> Array:
        """Number of devices."""
        return self.tp * self.cp * self.dp * self.pp

    def microbatches(self, batch: int) -> Array:
        """Return the micro-batches that each data-parallel rank runs a step, of `batch` sequences."""
        return batch / (self.dp * self.micro_batch)

    def layout(self, tiers: Sequence[Tier]) -> dict[str, list[Array]]:
        """Return for each of `PLACED`, for ``copies`` and ``shard``, its degree at each tier.

        Tiers are listed innermost first. Each axis in turn takes as much of a tier as divides it and
        still has room. ``copies`` are the ranks that hold the same weights, data and context
        parallelism together.
        """
        room: list[Array] = [tier.size for tier in tiers]
        placed: dict[str, list[Array]] = {}
        for axis in PLACED:
            rest = getattr(self, axis)
            degrees = []
            for i in range(len(tiers) - 1):
                here = _largest(rest, room[i])
                room[i] = np.floor(room[i] / here)
                rest = rest / here
                degrees.append(here)
            placed[axis] = [*degrees, rest]
        copies = [dp * cp for dp, cp in zip(placed["dp"], placed["cp"], strict=True)]
        rest, degrees = self.shard, []
        for degree in copies[:-1]:
            here = _common(rest, degree)
            rest = rest / here
            degrees.append(here)
        return {**placed, "copies": copies, "shard": [*degrees, rest]}

    def replicas(self, layout: Mapping[str, list[Array]]) -> list[Array]:
        """Return the degrees over the tiers of the ranks that hold the same shard."""
        return [copies / shard for copies, shard in zip(layout["copies"], layout["shard"], strict=True)]


def farthest(degrees: Sequence[Array]) -> Array:
    """Return the outermost tier at which a group has members, -1 where it has but one."""
    found: Array = -1
    for i, degree in enumerate(degrees):
        found = np.where(np.greater(degree, 1), i, found)
    return found


@functools.lru_cache(maxsize=65536)
def _largest_divisor(number: float, most: float) -> float:
    if number <= most:
        return float(number)
    return float(next((d for d in range(int(most), 1, -1) if number % d == 0), 1))


_divisor = np.frompyfunc(_largest_divisor, 2, 1)


def _common(number: Array, other: Array) -> Array:
    """Return the largest divisor of both, as floats."""
    return np.gcd(np.asarray(number, dtype=np.int64), np.asarray(other, dtype=np.int64)).astype(float)


def _largest(number: Array, most: Array) -> Array:
    """Return the largest divisor of `number` that is at most `most`."""
    if np.ndim(number) == 0 and np.ndim(most) == 0:
        return _largest_divisor(float(number), math.inf if most == math.inf else float(most))
    return np.asarray(_divisor(number, most), dtype=float)
