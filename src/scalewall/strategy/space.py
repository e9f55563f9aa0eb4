"""A strategy as one object, and the pieces of which a space of them is made."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from scalewall.cost.step import AXES, Strategies
from scalewall.hardware.cluster import Cluster

Array = Any
SCHEDULES = ("1f1b", "zero-bubble")


@attrs.frozen(kw_only=True)
class Strategy:
    """How a run is laid out: the degree of each axis over all tiers and at each, and the pipeline's schedule."""

    dp: int
    tp_model: int
    tp_ff: int
    pp: int
    ep: int
    microbatches: int
    interleave: int
    schedule: str
    layout: Mapping[str, tuple[int, ...]]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.dp * self.tp_model * self.tp_ff * self.pp * self.ep

    @property
    def arrays(self) -> Strategies:
        """The strategy as arrays of one element."""
        return Strategies(
            degrees={axis: [np.array([float(p)]) for p in self.layout[axis]] for axis in AXES},
            microbatches=np.array([float(self.microbatches)]),
            interleave=np.array([float(self.interleave)]),
            zero_bubble=np.array([self.schedule == "zero-bubble"]),
        )

    @classmethod
    def of(cls, strategies: Strategies, at: int) -> Strategy:
        """Return the strategy at index `at` of flat arrays."""

        def pick(values: Array) -> int:
            return int(np.ravel(values)[at if np.size(values) > 1 else 0])

        layout = {axis: tuple(pick(p) for p in strategies.degrees[axis]) for axis in AXES}
        zero_bubble = bool(np.ravel(strategies.zero_bubble)[at if np.size(strategies.zero_bubble) > 1 else 0])
        return cls(
            **{axis: math.prod(layout[axis]) for axis in AXES},
            microbatches=pick(strategies.microbatches),
            interleave=pick(strategies.interleave),
            schedule=SCHEDULES[zero_bubble],
            layout=layout,
        )


@functools.lru_cache(maxsize=64)
def smooth_numbers(most: float) -> tuple[int, ...]:
    """Return all ``2^a · 3^b`` up to `most`, in order."""
    twos = [2**a for a in range(max(0, int(math.log2(max(most, 1)))) + 1)]
    threes = [3**b for b in range(max(0, int(math.log(max(most, 1), 3))) + 1)]
    return tuple(sorted(n for a, b in itertools.product(twos, threes) if (n := a * b) <= most))


def divisors(n: int) -> list[int]:
    """Return the divisors of `n`, in order."""
    small = [i for i in range(1, math.isqrt(n) + 1) if n % i == 0]
    return small + [n // i for i in reversed(small) if i * i != n]


def factorisations(n: int, parts: int, degrees: Iterable[int]) -> list[tuple[int, ...]]:
    """Return all ways to write `n` as a product of `parts` ordered factors out of `degrees`."""
    allowed = sorted({d for d in degrees if n % d == 0})
    if parts == 1:
        return [(n,)] if n in allowed else []
    return [(d, *rest) for d in allowed for rest in factorisations(n // d, parts - 1, allowed)]


def inner_layouts(cluster: Cluster, degrees: Sequence[int], *, full: bool = False) -> list[tuple[int, ...]]:
    """Return every way to give one scale-up domain to the axes, as degrees in the order of `AXES`.

    The devices of a domain that a layout uses divide the domain, so that none is left idle; with
    `full` they are the whole domain.
    """
    size = int(cluster.tiers[0].size)
    used = [size] if full else divisors(size)
    return [layout for n in used for layout in factorisations(n, len(AXES), degrees)]
