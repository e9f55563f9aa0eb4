"""Utilisation as a smooth function of compute: a parabola fitted over a window, and how sure it is.

Degrees of parallelism are whole numbers, which puts bumps of some per cent on the curve of MFU. A fit
looks through them; what it leaves says how much it may err.
"""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np

from scalewall.hardware.cluster import Cluster
from scalewall.strategy.space import Strategy
from scalewall.study.points import best_point
from scalewall.study.scenario import Scenario

Array = Any

WINDOW = 3.0
"""Compute on either side of the centre, as a factor, over which the curve is fitted."""

POINTS = 17
"""Searches in the window, evenly spaced in log compute."""

_FEWEST = 6  # points that a fit of three numbers needs to say how good it is


@attrs.frozen(eq=False)
class Fit:
    """A parabola through log MFU against log compute about a `centre`, and what it leaves of each point."""

    centre: float
    coefficients: Array
    grid: Array
    left: Array

    def at(self, log_flop: float) -> float:
        """Return log MFU."""
        return float(np.polyval(self.coefficients, log_flop - self.centre))

    def slope(self, log_flop: float) -> float:
        """Return by how much log MFU rises a unit of log compute."""
        return float(np.polyval(np.polyder(self.coefficients), log_flop - self.centre))

    def crossing(self, level: float) -> float | None:
        """Return the log compute where the parabola falls through `level`; None if not near the window."""
        a, b, c = (float(v) for v in self.coefficients)
        inside = b * b - 4.0 * a * (c - level)
        if inside <= 0.0 or math.sqrt(inside) <= b:
            return None
        x = 2.0 * (c - level) / (math.sqrt(inside) - b)
        return self.centre + x if abs(x) <= 1.5 * math.log(WINDOW) else None


def fit(scenario: Scenario, cluster: Cluster, centre: float) -> Fit | None:
    """Return the fit about the compute `centre`; None if too few runs in the window end in time."""
    grid = np.linspace(-math.log(WINDOW), math.log(WINDOW), POINTS)
    logs = np.full(POINTS, math.nan)
    hints: list[Strategy] = []
    for i, x in enumerate(grid):
        point = best_point(scenario, cluster, centre * math.exp(x), hints[-2:])
        if point is not None:
            logs[i] = math.log(point.mfu)
            hints.append(point.strategy)
    there = np.isfinite(logs)
    if np.count_nonzero(there) < _FEWEST:
        return None
    coefficients = np.polyfit(grid[there], logs[there], 2)
    return Fit(math.log(centre), coefficients, grid, logs - np.polyval(coefficients, grid))


def difference_error(one: Fit, other: Fit, log_flop: float) -> float:
    """Return the standard error of the difference of two fits with the same centre, at `log_flop`.

    Their bumps are compared point by point, and taken to be independent along the curve.
    """
    apart = one.left - other.left
    there = np.isfinite(apart)
    spread = float(np.sum(apart[there] ** 2)) / max(1, int(np.count_nonzero(there)) - 3)
    shape, here = np.vander(one.grid[there], 3), np.vander([log_flop - one.centre], 3)[0]
    return math.sqrt(spread * float(here @ np.linalg.solve(shape.T @ shape, here)))
