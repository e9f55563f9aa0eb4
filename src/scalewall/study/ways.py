"""Ways to move the limits: other networks and latencies, other ways for runs to scale, more time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from scalewall.errors import NoAnswer
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster
from scalewall.study.boundary import find_knee, find_wall
from scalewall.study.points import Point, trace
from scalewall.study.scenario import PAPER_PRESET, Scenario, scenario

_LEAST_FLOP = 1e25
_POINTS = 9  # between which the first fall below the threshold is looked for


@attrs.frozen(kw_only=True)
class Way:
    """One thing changed: the hardware (an entry of the preset), or a word of the scenario."""

    name: str
    kind: str
    hardware: str = "h100-sxm"
    words: Mapping[str, Any] = attrs.field(factory=dict)


WAYS = (
    Way(name="baseline: H100", kind="baseline"),
    Way(name="latencies / 10", kind="hardware", hardware="h100-sxm-low-latency"),
    Way(name="scale-up domain of 256", kind="hardware", hardware="h100-sxm-superpod"),
    Way(name="scale-up network for all", kind="hardware", hardware="h100-sxm-global-nvlink"),
    Way(
        name="scale-up network for all, latencies / 10",
        kind="hardware",
        hardware="h100-sxm-global-nvlink-low-latency",
    ),
    Way(name="bandwidths × 10, latencies / 10", kind="hardware", hardware="h100-sxm-x10"),
    Way(
        name="infinite network, latencies / 10",
        kind="hardware",
        hardware="h100-sxm-infinite-network-low-latency",
    ),
    Way(name="sparse models", kind="runs", words={"sparse": True}),
    Way(name="undertrained: 5 tokens a parameter", kind="runs", words={"tokens_per_parameter": 5}),
    Way(name="depth constant: 128 blocks", kind="runs", words={"depth_law": "constant"}),
    Way(name="larger batches: Zhang et al.'s law", kind="runs", words={"batch_law": "zhang-2024"}),
    Way(name="runs of a year", kind="runs", words={"duration": "1 year"}),
)
"""The ways of the article and of arXiv 2411.01137, each alone. The hardware is the paper's."""


@attrs.frozen(kw_only=True)
class Moved:
    """Where a way moves the knee (None if there is none before the wall) and the wall."""

    way: Way
    scenario: Scenario
    cluster: Cluster
    knee: Point | None
    wall: Point


def find_moved(way: Way, words: Mapping[str, Any] | None = None) -> Moved:
    """Return the limits under one of `WAYS`, by exact search over the whole space of strategies.

    Parameters
    ----------
    way
        What is changed.
    words
        What is not as by default, besides: words of `scenario.scenario`.

    Raises
    ------
    NoAnswer
        If no run ends in time.
    """
    asked = scenario(**{**(words or {}), **way.words})
    cluster = catalogue.load(way.hardware, PAPER_PRESET)
    wall = find_wall(asked, cluster)
    if wall.training_flop <= _LEAST_FLOP:
        raise NoAnswer(f"{way.name}: no run of {_LEAST_FLOP:.0e} FLOP ends in time on {cluster.name}.")
    computes = np.geomspace(_LEAST_FLOP, wall.training_flop, _POINTS)[:-1].tolist()
    found = {place: point for place, point in trace(asked, cluster, computes) if point is not None}
    points = [found[place] for place in sorted(found)]
    knee = find_knee(asked, cluster, [*points, wall], asked.threshold * cluster.device.sustained)
    return Moved(way=way, scenario=asked, cluster=cluster, knee=knee, wall=wall)


def find_all(
    tell: Callable[[str], None] | None = None, words: Mapping[str, Any] | None = None
) -> list[Moved]:
    """Return the limits under each of `WAYS`; `tell` is called with the name of each before it is found.

    `words` are as in `find_moved`.
    """
    found = []
    for way in WAYS:
        if tell is not None:
            tell(way.name)
        found.append(find_moved(way, words))
    return found
