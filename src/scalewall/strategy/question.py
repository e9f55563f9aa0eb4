"""The question a search answers, and its answer: the best strategies of a space, and a certificate."""

from __future__ import annotations

import functools
import math
from typing import Any

import attrs
import numpy as np

from scalewall.cost.assumptions import Assumptions
from scalewall.errors import InputError
from scalewall.hardware.cluster import Cluster
from scalewall.strategy.borders import Borders, borders
from scalewall.strategy.space import Space, Strategy
from scalewall.workload.scaling import Workload

Array = Any

OBJECTIVES = ("mfu", "devices", "time")


@attrs.frozen(kw_only=True)
class Question:
    """What to search, for what, and within what.

    `duration` is the longest the run may take, in seconds. The objective is the highest ``mfu``,
    the fewest ``devices`` (and on these the fastest), or the shortest ``time`` on `devices`. `top` is
    how many strategies of different degrees are wanted. The scores may miss the optimum by the share
    `tolerance`: none, unless that is asked for; with 1, any feasible strategy will do.
    """

    cluster: Cluster
    workload: Workload
    how: Assumptions
    duration: float = math.inf
    objective: str = attrs.field(default="mfu")
    devices: int | None = None
    space: Space = attrs.field(factory=Space)
    top: int = 1
    tolerance: float = 0.0

    def __attrs_post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise InputError("objective", f"one of {', '.join(OBJECTIVES)}", self.objective)
        if self.objective == "time" and self.devices is None:
            raise InputError("devices", "a whole number where the objective is time", None)
        if self.top < 1:
            raise InputError("top", "a whole number of at least 1", self.top)

    @property
    def step_limit(self) -> float:
        """The longest a step may take, in seconds."""
        return self.duration / self.workload.steps

    @functools.cached_property
    def borders(self) -> Borders:
        """The borders between tiers, and what it costs to cross them."""
        return borders(self.cluster, self.workload, self.how)

    def score(self, devices: Array, seconds: Array) -> Array:
        """Return what is to be smallest; it rises with both arguments."""
        if self.objective == "mfu":
            return devices * seconds
        return seconds if self.objective == "time" else np.where(np.isfinite(seconds), devices, math.inf)


@attrs.frozen(kw_only=True)
class Certificate:
    """What a search did to be sure.

    Attributes
    ----------
    space
        Strategies in the space.
    priced
        Strategies priced exactly.
    bounded
        Bounds computed, for families, configurations and counts.
    best_discarded
        The best score that any discarded strategy could have had, by its bound: never better than
        the last score returned, but for rounding.
    """

    space: float
    priced: int
    bounded: int
    best_discarded: float


@attrs.frozen(kw_only=True)
class Result:
    """The best strategies, best first, with their scores, and the certificate."""

    strategies: tuple[Strategy, ...]
    scores: tuple[float, ...]
    certificate: Certificate

    @property
    def best(self) -> Strategy | None:
        """The best strategy; None if none is feasible."""
        return self.strategies[0] if self.strategies else None
