"""Where a curve ends and where it falls: the latency wall and the knee, found by search."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from scalewall.errors import NoAnswer
from scalewall.hardware.cluster import Cluster
from scalewall.strategy.search import Question, ruled_out, search
from scalewall.study.closed_form import wall
from scalewall.study.points import Point, best_point, price_point, question
from scalewall.study.scenario import Scenario

Found = TypeVar("Found")

WALL_PRECISION = 1e-3
KNEE_PRECISION = 1e-3
_LEAST_FLOP = 1e12  # no wall is looked for below this
_WALL_STEP, _NEAR = 2.0, 1.002  # steps of compute in which the wall is looked for, far from it and near
_COARSE = 1e-2  # precision of a coarse wall
_MOST_DP = 4  # degrees of data parallelism among which the fastest run is looked for first


def find_wall(scenario: Scenario, cluster: Cluster) -> Point:
    """Return the largest run that ends in time, found to `WALL_PRECISION`.

    Bounds rule runs out that are too large, cheaply, so bisection in log compute on these comes
    first. Just below what they rule out an example of a run in time is looked for: among the
    strategies with the most data parallelism, which are the fastest, and failing that among all.
    Where there is none, the wall is lower, and bisection goes on with searches. The strategy returned
    is such an example, not the one of the highest MFU.

    Raises
    ------
    NoAnswer
        If no run ends in time.
    """
    guess = wall(duration=scenario.duration).training_flop
    found = _bracket(functools.partial(_hopeful, scenario, cluster), guess, math.inf, _WALL_STEP)
    above = found[0] if found else 0.0
    example = _example(scenario, cluster, above)
    if example is None:
        nearest = _bracket(functools.partial(_example, scenario, cluster), above / _NEAR, above, _NEAR)
        example = nearest[1] if nearest else None
    if example is None:
        raise NoAnswer(f"No strategy on any number of {cluster.name} ends any run in time.")
    return example


def coarse_wall(scenario: Scenario, cluster: Cluster, near: float) -> Point:
    """Return about the largest run that ends in time, looked for from `near` on.

    As `find_wall`, with less precision, and examples are looked for only among the fastest kind of
    strategy. Where bounds are loose (tiers of very unlike latency), proving that nothing else would do
    takes minutes. So this is an example that ends in time, at worst a few hundredths below the wall.

    Raises
    ------
    NoAnswer
        If no run ends in time.
    """
    hopeful = functools.partial(_hopeful, scenario, cluster)
    bound = _bracket(hopeful, near, math.inf, _WALL_STEP, _COARSE)
    fast = functools.partial(_example, scenario, cluster, fastest=True)
    step = 1.0 + _COARSE / 2.0
    found = _bracket(fast, bound[0], bound[0] * step, step, _COARSE) if bound else None
    return found[1] if found else find_wall(scenario, cluster)


def _bracket(
    find: Callable[[float], Found | None],
    start: float,
    above: float,
    step_factor: float,
    precision: float = WALL_PRECISION,
) -> tuple[float, Found] | None:
    """Return the largest compute at which `find` finds something, to half of `precision`, and what.

    Looked for from `start`, up and down in steps that grow, then by halving; nothing is found at `above`.
    """
    below, found, flop = 0.0, None, start
    while not below or above / below > 1.0 + precision / 2.0:
        if flop < _LEAST_FLOP:
            return None
        if (what := find(flop)) is not None:
            below, found = flop, what
        else:
            above = flop
        if below and math.isfinite(above):
            flop = math.sqrt(below * above)
            continue
        step_factor = step_factor**1.5  # only in steps: halving goes on for longer than floats would hold
        flop = flop * step_factor if below else flop / step_factor
    return (below, found) if found is not None else None


def _hopeful(scenario: Scenario, cluster: Cluster, training_flop: float) -> Question | None:
    """Return what to search for a run of `training_flop`, or None if bounds rule it out."""
    asked = question(scenario, cluster, training_flop)
    return None if asked is None or ruled_out(asked) else asked


def _example(
    scenario: Scenario, cluster: Cluster, training_flop: float, *, fastest: bool = False
) -> Point | None:
    """Return any run of `training_flop` that ends in time, or None if there is none.

    First among the fastest kind of strategy, the most data parallelism and as few micro-batches as
    there can be, and then, unless only the `fastest` are wanted, among all.
    """
    asked = question(scenario, cluster, training_flop, tolerance=1.0)
    if asked is None:
        return None
    space = asked.space
    most_dp = tuple(int(p) for p in space.degrees("dp", asked.workload)[-_MOST_DP:])
    one_each = attrs.evolve(space, dp=most_dp or None, microbatches=space.microbatches or 1)
    for tried in (one_each,) if fastest else (one_each, space):
        found = search(attrs.evolve(asked, space=tried))
        if found.best is not None:
            return price_point(scenario, cluster, asked.workload, found.best)
    return None


def find_knee(
    scenario: Scenario, cluster: Cluster, points: Sequence[Point], threshold: float
) -> Point | None:
    """Return the least run whose MFU is below `threshold`, found to `KNEE_PRECISION` between two `points`.

    A curve need not fall everywhere: this is the first crossing that `points` show. Where the first
    of them is below already, it is looked for at less compute. MFU is taken for a line in log
    compute, and the interval halved in turn.
    """
    falls = (i for i in range(1, len(points)) if points[i].mfu < threshold <= points[i - 1].mfu)
    at = next(falls, None if points[0].mfu >= threshold else 0)
    if at is None:
        return None
    knee, above = points[at], points[at - 1] if at else None
    while above is None:
        lower = best_point(scenario, cluster, knee.training_flop / 4.0, [knee.strategy])
        if lower is None:
            return knee
        knee, above = (lower, None) if lower.mfu < threshold else (knee, lower)
    halve = False
    while knee.training_flop / above.training_flop > 1.0 + KNEE_PRECISION:
        span = math.log(knee.training_flop / above.training_flop)
        part = 0.5 if halve else (above.mfu - threshold) / (above.mfu - knee.mfu)
        part = min(max(part, 0.25 * KNEE_PRECISION / span), 1.0 - 0.25 * KNEE_PRECISION / span)
        flop = above.training_flop * math.exp(span * part)
        middle = best_point(scenario, cluster, flop, [above.strategy, knee.strategy])
        if middle is None:
            return knee
        knee, above = (middle, above) if middle.mfu < threshold else (knee, middle)
        halve = not halve
    return knee
