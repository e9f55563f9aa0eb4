"""How far training scales on a device: utilisation against compute, the knee, and the latency wall."""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs
import numpy as np

from scalewall.errors import InputError, NoAnswer
from scalewall.hardware.cluster import Cluster
from scalewall.strategy import paper
from scalewall.study.boundary import find_knee, find_wall
from scalewall.study.distributions import Uncertainty
from scalewall.study.points import Point, binding, price_point, question, trace
from scalewall.study.scenario import Scenario
from scalewall.study.uncertainty import Draws, Spread, spread_of, uncertain_inputs
from scalewall.units import show
from scalewall.workload import grid

Progress = Callable[[int, int, str], None]
"""Called with how many points are done, how many there are, and what is being done."""

_PAPER_POINTS = 32  # about as many as the paper's grid has below the wall, for the progress shown


@attrs.frozen(kw_only=True)
class Curve:
    """One device's limits.

    Attributes
    ----------
    threshold_mfu
        The threshold's share of the sustained MFU.
    knee
        The least run at which MFU is below that: the linear-scaling limit. None if MFU stays above it.
    wall
        The largest run that any strategy on any number of devices ends in time.
    points
        The curve, by rising compute; only runs that end in time.
    spread
        How sure all this is, at the computes of `points`; None where nothing is uncertain.
    """

    cluster: Cluster
    threshold_mfu: float
    knee: Point | None
    wall: Point
    points: tuple[Point, ...]
    spread: Spread | None = None

    @property
    def hardware(self) -> str:
        """The device's name."""
        return self.cluster.name

    @property
    def sustained_mfu(self) -> float:
        """The most utilisation there is: the sustained share of the peak."""
        return self.cluster.device.sustained

    @property
    def knee_flop(self) -> float | None:
        """Training compute at the knee; None if there is no knee before the wall."""
        return self.knee.training_flop if self.knee else None

    @property
    def knee_binding(self) -> str | None:
        """What binds at the knee."""
        return self.knee.binding if self.knee else None

    @property
    def wall_flop(self) -> float:
        """Training compute at the wall."""
        return self.wall.training_flop

    @property
    def wall_binding(self) -> str:
        """What binds at the wall, where nobody asks whether a run is efficient."""
        return binding(self.wall.seconds_by_cause, efficient=False)

    @property
    def binding(self) -> str:
        """What binds at the knee, or at the wall where there is no knee before it."""
        return self.knee_binding or self.wall_binding

    @property
    def derived(self) -> dict[str, str]:
        """Numbers behind the curve that no source states, and how each was worked out."""
        unused = ("device.power", "device.price")
        return {path: how for path, how in self.cluster.derived.items() if path not in unused}


@attrs.frozen(kw_only=True)
class Limits:
    """The answer to a scenario: a curve for each device; `draws` is how its uncertain inputs were drawn."""

    scenario: Scenario
    curves: tuple[Curve, ...]
    draws: Draws | None = None


def limits(
    scenario: Scenario,
    progress: Progress | None = None,
    coarse: Limits | None = None,
    draws: Draws | None = None,
) -> Limits:
    """Return the limits of every device of the scenario.

    Parameters
    ----------
    scenario
        What is asked.
    progress
        Called as points are done.
    coarse
        An answer to the same scenario with other or fewer points: what it has is not searched again.
    draws
        How inputs are drawn where the scenario says that they are uncertain.

    Raises
    ------
    InputErrors
        All that is wrong with the scenario's uncertain inputs.
    NoAnswer
        If nothing is feasible on a device in the range that is asked for.
    """
    tell = progress or (lambda done, total, what: None)
    uncertain = _uncertain(scenario)
    drawing = (draws or Draws()) if uncertain else None
    before = coarse.curves if coarse is not None and _same_runs(coarse.scenario, scenario) else ()
    curves = []
    for i, cluster in enumerate(scenario.clusters):
        if scenario.is_papers:
            curves.append(_paper_curve(scenario, cluster, tell))
            continue
        known = next((curve for curve in before if curve.cluster == cluster), None)
        curve = _curve(scenario, cluster, tell, known)
        if drawing is not None:
            at = {point.training_flop: point for point in curve.points}
            some = spread_of(scenario, cluster, uncertain[i], drawing, at, curve.knee, curve.wall, progress)
            curve = attrs.evolve(curve, spread=some)
        curves.append(curve)
    return Limits(scenario=scenario, curves=tuple(curves), draws=drawing)


def _uncertain(scenario: Scenario) -> list[Uncertainty]:
    """Return the uncertain inputs of each device, if the scenario has any; checked before all else."""
    if not scenario.uncertain:
        return []
    if scenario.is_papers:
        must = f"left out under {scenario.preset}, whose grid moves with the inputs"
        hint = "'scalewall uncertainty' searches its devices over the whole space."
        raise InputError("uncertain", must, dict(scenario.uncertain), hint)
    return uncertain_inputs(scenario)


def limits_of(
    scenario: Scenario, cluster: Cluster, progress: Progress | None = None, coarse: Curve | None = None
) -> Curve:
    """Return the limits of `cluster`, whatever devices the scenario names; otherwise as `limits`."""
    tell = progress or (lambda done, total, what: None)
    if scenario.is_papers:
        return _paper_curve(scenario, cluster, tell)
    return _curve(scenario, cluster, tell, coarse)


def _same_runs(one: Scenario, other: Scenario) -> bool:
    """Whether the best run of a compute is the same under both: they may differ in what is looked at."""
    return (
        attrs.evolve(
            one,
            hardware=other.hardware,
            points=other.points,
            from_flop=other.from_flop,
            to_flop=other.to_flop,
        )
        == other
    )


# The default: any compute, the whole space of strategies ---------------------------------------------


def _curve(scenario: Scenario, cluster: Cluster, tell: Progress, coarse: Curve | None) -> Curve:
    threshold = scenario.threshold * cluster.device.sustained
    total = scenario.points + 1
    tell(0, total, f"{cluster.name}: the wall")
    wall = coarse.wall if coarse else find_wall(scenario, cluster)
    last = min(scenario.to_flop or math.inf, wall.training_flop)
    if scenario.from_flop > last:
        raise NoAnswer(
            f"No strategy on any number of {cluster.name} ends a run of {scenario.from_flop:.3g} FLOP within "
            f"{show(scenario.duration, 's')}: the latency wall is at {wall.training_flop:.3g} FLOP."
        )
    if question(scenario, cluster, scenario.from_flop) is None:
        raise InputError("from_flop", "enough for a model of one block", scenario.from_flop)
    computes = curve_computes(scenario, wall)
    found: dict[int, Point] = {}
    for place, point in trace(scenario, cluster, computes, coarse.points if coarse else ()):
        tell(len(found) + 1, total, f"{cluster.name}: {computes[place]:.2g} FLOP")
        if point is not None:
            found[place] = point
    points = tuple(found[place] for place in sorted(found))
    if not points:
        raise NoAnswer(f"No strategy that is allowed runs on {cluster.name} anywhere in the range.")
    knee = find_knee(scenario, cluster, [*points, wall], threshold)
    tell(total, total, f"{cluster.name}: done")
    return Curve(cluster=cluster, threshold_mfu=threshold, knee=knee, wall=wall, points=points)


def curve_computes(scenario: Scenario, wall: Point) -> list[float]:
    """Return the training computes of a curve's points, up to the wall unless the scenario ends before."""
    last = min(scenario.to_flop or math.inf, wall.training_flop)
    if last < wall.training_flop:
        return [float(flop) for flop in np.geomspace(scenario.from_flop, last, scenario.points)]
    # The wall itself is no point of the curve: what just ends in time there is not efficient.
    return [float(flop) for flop in np.geomspace(scenario.from_flop, last, scenario.points + 1)[:-1]]


# The paper's grid and space --------------------------------------------------------------------------


def _paper_curve(scenario: Scenario, cluster: Cluster, tell: Progress) -> Curve:
    threshold = scenario.threshold * cluster.device.sustained
    points: list[Point] = []
    for width in grid.widths():
        workload = grid.workload(scenario.scaling, width)
        tell(len(points), _PAPER_POINTS, f"{cluster.name}: {workload.training_flop:.2g} FLOP")
        best = paper.smallest_cluster(cluster, workload, scenario.duration, scenario.how)
        if best is None:
            break
        points.append(price_point(scenario, cluster, workload, best))
    if not points:
        raise NoAnswer(
            f"No run on the paper's grid ends within {show(scenario.duration, 's')} on {cluster.name}."
        )
    last = scenario.to_flop or math.inf
    shown = tuple(p for p in points if scenario.from_flop <= p.training_flop <= last)
    if not shown:
        raise NoAnswer(
            f"No run on the paper's grid from {scenario.from_flop:.3g} to {last:.3g} FLOP ends within "
            f"{show(scenario.duration, 's')} on {cluster.name}: the wall "
            f"is at {points[-1].training_flop:.3g} FLOP."
        )
    knee = next((point for point in points if point.mfu < threshold), None)
    return Curve(cluster=cluster, threshold_mfu=threshold, knee=knee, wall=points[-1], points=shown)
