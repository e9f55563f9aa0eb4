"""The best strategies a search has found so far: the bar for all others."""

from __future__ import annotations

import heapq
import itertools
import math
from typing import Any

import numpy as np

from scalewall.cost.step import AXES
from scalewall.strategy.space import Strategy

Array = Any

SLACK = 1.0 + 1e-9
"""By how much a bound may miss the bar for rounding: far above rounding error, far below any digit shown."""


class Best:
    """The `top` best strategies of different degrees, by a score that is to be small.

    With a `tolerance` a bound must promise to beat the bar by that share to be followed up.
    """

    def __init__(self, top: int, tolerance: float = 0.0) -> None:
        self.top = top
        self.reach = SLACK * (1.0 - tolerance)
        self.discarded = math.inf
        self._heap: list[tuple[float, int, Strategy]] = []  # worst first
        self._tick = itertools.count()  # among equals the first found stays

    @property
    def bar(self) -> float:
        """The score that a strategy must beat."""
        return -self._heap[0][0] if len(self._heap) == self.top else math.inf

    @property
    def reachable(self) -> float:
        """The score below which a bound must be to leave hope."""
        return self.bar * self.reach if math.isfinite(self.bar) else math.inf

    @property
    def ranked(self) -> list[tuple[float, Strategy]]:
        """Scores and strategies, best first."""
        return [(-score, strategy) for score, _, strategy in sorted(self._heap, reverse=True)]

    def keep(self, score: float, strategy: Strategy) -> None:
        """Take `strategy` among the best if it is; of one set of degrees only the best stays."""
        same = [i for i, (_, _, other) in enumerate(self._heap) if _degrees(other) == _degrees(strategy)]
        entry = (-score, -next(self._tick), strategy)
        if same:
            if score < -self._heap[same[0]][0]:
                self._heap[same[0]] = entry
                heapq.heapify(self._heap)
        elif len(self._heap) < self.top:
            heapq.heappush(self._heap, entry)
        elif score < self.bar:
            heapq.heapreplace(self._heap, entry)

    def survives(self, score: Array) -> Array:
        """Return where a bound on the score leaves hope, and note the best that is discarded."""
        hope = score < self.reachable if math.isfinite(self.bar) else np.isfinite(score)
        dropped = score[~hope]
        if dropped.size:
            self.discarded = min(self.discarded, float(dropped.min()))
        return hope


def _degrees(strategy: Strategy) -> tuple[int, ...]:
    return tuple(getattr(strategy, axis) for axis in AXES)
