"""The bench on which claims are checked: what several need is worked out once, and no further than asked."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from scalewall.errors import NoAnswer
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster
from scalewall.strategy import paper
from scalewall.study.boundary import find_knee, find_wall
from scalewall.study.points import Point, best_point, price_point
from scalewall.study.scenario import PAPER_PRESET, Scenario, scenario
from scalewall.workload import grid

DEVICE = "h100-sxm"
"""The device that the article and the paper speak of; under the paper's preset it has the paper's values."""


@attrs.frozen
class Finding:
    """What was found for a claim.

    Attributes
    ----------
    value
        Our figure or figures, to be compared with the claim; None if it cannot be computed.
    note
        How it came, or why there is none.
    implied
        What other claims of the same source imply in place of the claim, where they do.
    """

    value: float | tuple[float, ...] | None
    note: str = ""
    implied: float | None = None


Figure = Callable[["Bench"], Finding]
FIGURES: dict[str, Figure] = {}
"""The functions that find our figures, by the name that a claim calls its own."""


def figure(function: Figure) -> Figure:
    """Enter `function` in `FIGURES` under its name."""
    FIGURES[function.__name__] = function
    return function


class PaperCurve:
    """A device's curve over the paper's grid and space, priced point by point as far as it is looked at."""

    def __init__(self, asked: Scenario, cluster: Cluster) -> None:
        self.asked, self.cluster = asked, cluster
        self._found: list[Point] = []
        self._rest = self._walk()

    def _walk(self) -> Iterator[Point]:
        for width in grid.widths():
            workload = grid.workload(self.asked.scaling, width)
            best = paper.smallest_cluster(self.cluster, workload, self.asked.duration, self.asked.how)
            if best is None:
                return
            yield price_point(self.asked, self.cluster, workload, best)

    def __iter__(self) -> Iterator[Point]:
        at = 0
        while True:
            if at == len(self._found):
                following = next(self._rest, None)
                if following is None:
                    return
                self._found.append(following)
            yield self._found[at]
            at += 1

    @property
    def knee(self) -> Point:
        """The first point below the threshold.

        Raises
        ------
        NoAnswer
            If there is none before the wall.
        """
        threshold = self.asked.threshold * self.cluster.device.sustained
        found = next((point for point in self if point.mfu < threshold), None)
        if found is None:
            raise NoAnswer(f"The {self.cluster.name} has no knee before its wall.")
        return found

    @property
    def wall(self) -> Point:
        """The last point that ends in time.

        Raises
        ------
        NoAnswer
            If no point does.
        """
        return self.last_above(0.0)

    def last_above(self, mfu: float) -> Point:
        """Return the last point of at least `mfu`."""
        found = [point for point in self if point.mfu >= mfu]
        if not found:
            raise NoAnswer(f"No run of the paper's grid on {self.cluster.name} has an MFU of {mfu:.0%}.")
        return found[-1]

    def nearest(self, training_flop: float) -> Point:
        """Return the point of nearly `training_flop`."""
        before: Point | None = None
        for point in self:
            if point.training_flop >= training_flop:
                near = [p for p in (before, point) if p is not None]
                return min(near, key=lambda p: abs(math.log(p.training_flop / training_flop)))
            before = point
        raise NoAnswer(f"No run of {training_flop:.3g} FLOP on {self.cluster.name} ends in time.")


class Bench:
    """What claims are checked with.

    Parameters
    ----------
    claimed
        The claims' own numbers by id, for claims that others of the same source bear on.
    device
        What stands for the H100; the paper's H100 if left out.
    """

    preset = PAPER_PRESET

    def __init__(self, claimed: Mapping[str, tuple[float, ...]], device: Cluster | None = None) -> None:
        self._claimed = claimed
        self.device = device or catalogue.load(DEVICE, PAPER_PRESET)
        self._curves: dict[Any, PaperCurve] = {}

    def claimed(self, name: str) -> float:
        """Return the first number that the claim called `name` makes."""
        return self._claimed[name][0]

    def claims(self, name: str) -> tuple[float, ...]:
        """Return all numbers that the claim called `name` makes."""
        return self._claimed[name]

    def curve(self, cluster: Cluster | None = None, **words: Any) -> PaperCurve:
        """Return a device's curve in the paper's space, with `words` of the scenario changed."""
        of = cluster or self.device
        words = {name: value for name, value in words.items() if value}
        key = (id(of), *sorted(words.items()))  # the curve holds the cluster, so its id stays its own
        if key not in self._curves:
            self._curves[key] = PaperCurve(scenario(preset=PAPER_PRESET, **words), of)
        return self._curves[key]

    def entry(self, name: str, preset: str | None = None) -> Cluster:
        """Return an entry of the catalogue."""
        return catalogue.load(name, preset)

    @functools.cached_property
    def asked(self) -> Scenario:
        """The default scenario, but for its devices."""
        return scenario()

    @functools.cached_property
    def faster(self) -> Cluster:
        """The device with memory, L2 and networks ten times as fast, and a tenth of all latencies."""
        d = self.device.device
        caches = tuple(
            attrs.evolve(cache, bandwidth=cache.bandwidth and 10.0 * cache.bandwidth) for cache in d.caches
        )
        device = attrs.evolve(
            d,
            memory_bandwidth=10.0 * d.memory_bandwidth,
            kernel_latency=d.kernel_latency / 10.0,
            caches=caches,
        )
        tiers = tuple(
            attrs.evolve(tier, bandwidth=10.0 * tier.bandwidth, latency=tier.latency / 10.0)
            for tier in self.device.tiers
        )
        return attrs.evolve(self.device, device=device, tiers=tiers)

    @functools.cached_property
    def searched_knee(self) -> float | None:
        """Training compute of the device's knee where all strategies are searched; None without one."""
        threshold = self.asked.threshold * self.device.device.sustained
        points: list[Point] = []
        for flop in np.geomspace(self.asked.from_flop, self.searched_wall, self.asked.points).tolist():
            point = best_point(self.asked, self.device, flop, [p.strategy for p in points[-1:]])
            if point is None:
                break
            points.append(point)
            if point.mfu < threshold:
                break
        found = find_knee(self.asked, self.device, points, threshold)
        return found.training_flop if found else None

    @functools.cached_property
    def searched_wall(self) -> float:
        """Training compute of the device's wall where all strategies are searched."""
        return find_wall(self.asked, self.device).training_flop
