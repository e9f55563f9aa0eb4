"""A curve in a hurry: a few points of it, for a picture that is refined after."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import numpy as np

from scalewall.hardware.cluster import Cluster
from scalewall.strategy import paper
from scalewall.study.closed_form import wall
from scalewall.study.limits import Limits
from scalewall.study.points import Point, coarse_first, price_point, trace
from scalewall.study.scenario import Scenario
from scalewall.workload import grid

MOST_POINTS = 9
LEAST_POINTS = 3
_NEAR = 0.2  # of the wall as it is guessed: closer to it a search takes long
_PAPER_WIDTHS = 31  # about as many as the paper's grid has below the wall


def sketch(
    scenario: Scenario, cluster: Cluster, seconds: float, before: Limits | None = None
) -> tuple[Point, ...]:
    """Return points of the curve on `cluster`, by rising compute, each the exact best run of its compute.

    They are found coarse first until `seconds` have passed, at least `LEAST_POINTS` of them where there
    are any. Neither wall nor knee is looked for: the last point lies below the wall.

    Parameters
    ----------
    before
        The answer to a scenario near this one: its wall says how far to look, its strategies are hints.
    """
    begun = time.monotonic()
    found: list[Point] = []
    for point in _points(scenario, cluster, before):
        found += [point] if point is not None else []
        if len(found) >= LEAST_POINTS and time.monotonic() - begun > seconds:
            break
    return tuple(sorted(found, key=lambda point: point.training_flop))


def _points(scenario: Scenario, cluster: Cluster, before: Limits | None) -> Iterator[Point | None]:
    if scenario.is_papers:
        yield from _on_the_papers_grid(scenario, cluster)
        return
    last = _NEAR * wall(duration=scenario.duration).training_flop
    if before:  # the wall moves as its closed form does
        last *= before.curves[0].wall_flop / wall(duration=before.scenario.duration).training_flop
    last = min(scenario.to_flop or math.inf, max(last, 10.0 * scenario.from_flop))
    computes = np.geomspace(scenario.from_flop, last, MOST_POINTS).tolist()
    hints: Sequence[Point] = before.curves[0].points if before else ()
    known = [point for point in hints if point.training_flop not in computes]
    yield from (point for _, point in trace(scenario, cluster, computes, known))


def _on_the_papers_grid(scenario: Scenario, cluster: Cluster) -> Iterator[Point | None]:
    widths = [width for width, _ in zip(grid.widths(), range(_PAPER_WIDTHS), strict=False)]
    for place in coarse_first(_PAPER_WIDTHS):
        workload = grid.workload(scenario.scaling, widths[place])
        if scenario.from_flop <= workload.training_flop <= (scenario.to_flop or math.inf):
            best = paper.smallest_cluster(cluster, workload, scenario.duration, scenario.how)
            yield price_point(scenario, cluster, workload, best) if best else None
