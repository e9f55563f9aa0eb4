"""How much the limits depend on each input: elasticities of the knee, the wall and the utilisation.

Every input is moved up and down and everything else is searched anew, so that each side has the best
strategy there is for it. Degrees of parallelism are whole numbers, which puts bumps of some per cent on
the curve of MFU; where it is shallow, they move its first crossing of a threshold by tens of per cent.
A difference of two first crossings therefore says little. Knee and MFU are taken from a parabola fitted
to the logarithm of MFU over a window of compute about where they are asked for, and the bumps it leaves
give the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np

from scalewall.cost import step as cost
from scalewall.errors import InputError, NoAnswer, nearest
from scalewall.hardware.cluster import Cluster
from scalewall.strategy.search import ruled_out
from scalewall.study.boundary import WALL_PRECISION, find_knee, find_wall
from scalewall.study.inputs import Input, inputs
from scalewall.study.inverse import Design, design
from scalewall.study.limits import Progress
from scalewall.study.points import Point, price_point, question, trace
from scalewall.study.scenario import Scenario
from scalewall.study.smooth import Fit, difference_error, fit
from scalewall.units import parse

OUTPUTS = ("knee", "wall", "mfu")
LEAST_STEP, MOST_STEP = 0.01, 1.0
EXPONENT_SHARE = 0.1
"""Share of the step by which exponents move: ten per cent more of one is orders of magnitude elsewhere."""

_KINK = 0.1  # sides that differ by less are not called kinked, however exact they are


@attrs.frozen(kw_only=True)
class Elasticity:
    """How an output answers to one input, in per cent a per cent.

    Attributes
    ----------
    output
        One of `OUTPUTS`.
    elasticity
        ``ln(output above / output below) / ln(input above / input below)``; from one side where there
        is no other; None if there is neither.
    error
        One standard error: of the fits for knee and MFU, of the precision of the search for the wall.
    up, down
        The same from the value upward, and from the value downward; None where the input cannot go
        there or the output does not exist there.
    low, high
        Values of the input on either side, in SI; its own value where it cannot move.
    kinked
        Whether the sides differ by more than their errors explain.
    """

    input: Input
    output: str
    elasticity: float | None
    error: float
    up: float | None
    down: float | None
    low: float
    high: float
    kinked: bool


@attrs.frozen(kw_only=True)
class Sensitivity:
    """What the limits of one device depend on.

    Attributes
    ----------
    at_flop
        Training compute at which the MFU is meant.
    outputs
        The outputs that were asked, as they are for the inputs' own values; `knee` and `mfu` of the
        fitted curve.
    knee_flop
        The first crossing, as `limits` finds it; None if there is none before the wall.
    elasticities
        For each output its elasticities, the largest first.
    design
        What makes a run of a given size efficient, if that was asked.
    """

    cluster: Cluster
    step: float
    at_flop: float | None
    knee_flop: float | None
    wall_flop: float
    outputs: dict[str, float]
    elasticities: tuple[Elasticity, ...]
    design: Design | None = None


@attrs.frozen(kw_only=True)
class Sensitivities:
    """The answer to a scenario: for each device what its limits depend on."""

    scenario: Scenario
    devices: tuple[Sensitivity, ...]


def sensitivity(
    scenario: Scenario,
    *,
    at: Sequence[str] = OUTPUTS,
    flop: float | str | None = None,
    step: float | str = 0.1,
    target: float | str | None = None,
    only: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Sensitivities:
    """Return what the limits of every device of `scenario` depend on.

    Parameters
    ----------
    scenario
        What is asked. Under a preset its devices are searched over the default space: the steps of the
        paper's grid are larger than any small change.
    at
        Which of `OUTPUTS`.
    flop
        Training compute at which the MFU is meant; the knee if left out.
    step
        Share by which inputs go up and down; exponents go by a tenth of it, whole sizes by a factor of 2.
    target
        If given, also the least change of each input that makes a run of this compute efficient.
    only
        Names of inputs; all if left out.
    progress
        Called as sides are done.

    Raises
    ------
    NoAnswer
        If no run ends in time, or there is no knee where one is needed.
    """
    unknown = next((name for name in at if name not in OUTPUTS), None)
    if unknown is not None or not at:
        raise InputError("at", f"one or several of {', '.join(OUTPUTS)}", unknown)
    share = parse(step, "1", "step")
    if not LEAST_STEP <= share <= MOST_STEP:
        raise InputError("step", f"a number from {LEAST_STEP:g} to {MOST_STEP:g}", step)
    where = None if flop is None else _compute(flop, "flop")
    if where is not None and "mfu" not in at:
        raise InputError("flop", "left out unless the MFU is asked for", flop)
    goal = None if target is None else _compute(target, "target")
    tell = progress or (lambda done, total, what: None)
    known = [_chosen(scenario, cluster, only) for cluster in scenario.clusters]
    found = [
        _of_device(scenario, cluster, of, tuple(at), where, share, goal, tell)
        for cluster, of in zip(scenario.clusters, known, strict=True)
    ]
    return Sensitivities(scenario=scenario, devices=tuple(found))


def _chosen(scenario: Scenario, cluster: Cluster, only: Sequence[str] | None) -> dict[str, Input]:
    known = inputs(scenario, cluster)
    for name in only or ():
        if name not in known:
            raise InputError("only", f"inputs that {cluster.name} has", name, nearest(name, known))
    return {name: known[name] for name in only or known}


def _compute(value: float | str, field: str) -> float:
    flop = parse(value, "FLOP", field)
    if not 0 < flop < math.inf:
        raise InputError(field, "a positive number of FLOP", value)
    return flop


def _of_device(
    scenario: Scenario,
    cluster: Cluster,
    known: dict[str, Input],
    at: tuple[str, ...],
    flop: float | None,
    step: float,
    target: float | None,
    tell: Progress,
) -> Sensitivity:
    tell(0, 2 * len(known), f"{cluster.name}: its limits")
    wall = find_wall(scenario, cluster)
    knee = _knee(scenario, cluster, wall)
    if knee is None and ("knee" in at or ("mfu" in at and flop is None)):
        raise NoAnswer(
            f"There is no knee before the wall on {cluster.name}: ask for the wall, or give a flop."
        )
    remedies = None
    if target is not None:  # first, since a target that is wrong should be known soon
        remedies = design(scenario, cluster, known, target, knee.training_flop if knee else None, tell)
    around = flop if flop is not None else knee.training_flop if knee else None
    asked = _Asked(
        outputs=at,
        wall=wall,
        knee=knee.training_flop if knee else None,
        mfu_at=around,
    )
    base = asked.answer(scenario, cluster)
    found: list[Elasticity] = []
    for i, number in enumerate(known.values()):
        low, high = _sides(number, step)
        sides: list[_Side | None] = []
        for j, value in enumerate((low, high)):
            tell(2 * i + j, 2 * len(known), f"{cluster.name}: {number.name}")
            moved = value != number.value
            sides.append(asked.answer(*number.set(scenario, cluster, value)) if moved else None)
        found += [_elasticity(number, o, (low, high), base, sides[0], sides[1]) for o in at]
    tell(2 * len(known), 2 * len(known), f"{cluster.name}: done")
    values = {output: math.exp(base.logs[output]) for output in at if output in base.logs}
    found.sort(key=lambda e: (at.index(e.output), -abs(e.elasticity or 0.0)))
    return Sensitivity(
        cluster=cluster,
        step=step,
        at_flop=around if "mfu" in at else None,
        knee_flop=asked.knee,
        wall_flop=wall.training_flop,
        outputs=values,
        elasticities=tuple(found),
        design=remedies,
    )


def _knee(scenario: Scenario, cluster: Cluster, wall: Point) -> Point | None:
    """Return the knee that `limits` finds, from as many points of the curve."""
    last = wall.training_flop
    computes = np.geomspace(min(scenario.from_flop, last / 10.0), last, scenario.points + 1)[:-1]
    found = {i: p for i, p in trace(scenario, cluster, computes.tolist()) if p is not None}
    threshold = scenario.threshold * cluster.device.sustained
    return find_knee(scenario, cluster, [*(found[i] for i in sorted(found)), wall], threshold)


def _sides(number: Input, step: float) -> tuple[float, float]:
    """Return the values below and above an input's own, or its own where it cannot go."""
    factor = 2.0 if number.whole else 1.0 + step * (EXPONENT_SHARE if number.exponent else 1.0)
    low, high = number.value / factor, number.value * factor
    if not number.whole:  # what has a bound goes as far as that
        low, high = max(low, number.least), min(high, number.most)
    return tuple(v if number.allows(v) else number.value for v in (low, high))  # type: ignore[return-value]


# One side: the outputs at some values of the inputs --------------------------------------------------


@attrs.frozen(eq=False)
class _Side:
    """The logarithms of outputs, and the fits that knee and MFU come from."""

    logs: dict[str, float]
    fits: dict[str, Fit]


@attrs.frozen(kw_only=True)
class _Asked:
    """What is asked of every side; the fits' windows stay where they are, so that fits can be compared."""

    outputs: tuple[str, ...]
    wall: Point
    knee: float | None
    mfu_at: float | None

    def answer(self, scenario: Scenario, cluster: Cluster) -> _Side:
        """Return the outputs of `scenario` on `cluster`; those that do not exist are left out."""
        logs: dict[str, float] = {}
        fits: dict[str, Fit] = {}
        windows: dict[float, Fit | None] = {}  # knee and MFU mostly share theirs
        level = math.log(scenario.threshold * cluster.device.sustained)
        for name, centre in (("knee", self.knee), ("mfu", self.mfu_at)):
            if name not in self.outputs or centre is None:
                continue
            if centre not in windows:
                windows[centre] = fit(scenario, cluster, centre)
            fitted = windows[centre]
            if fitted is None:
                continue
            value = fitted.crossing(level) if name == "knee" else fitted.at(fitted.centre)
            if value is not None:
                logs[name], fits[name] = value, fitted
        if "wall" in self.outputs and (wall := _wall(scenario, cluster, self.wall)) is not None:
            logs["wall"] = math.log(wall)
        return _Side(logs, fits)


def _wall(scenario: Scenario, cluster: Cluster, before: Point) -> float | None:
    """Return the wall: where it was `before` if that run still ends in time and no larger one can."""
    further = question(scenario, cluster, before.training_flop * (1.0 + WALL_PRECISION))
    same = question(scenario, cluster, before.training_flop)
    if further is not None and same is not None and ruled_out(further):
        point = price_point(scenario, cluster, same.workload, before.strategy)
        fits = cost.allowed(cluster, same.workload, before.strategy.arrays, scenario.how)
        if bool(np.all(fits)) and point.duration_s <= scenario.duration:
            return before.training_flop
    try:
        return find_wall(scenario, cluster).training_flop
    except NoAnswer:
        return None


# Differences -----------------------------------------------------------------------------------------


def _elasticity(
    number: Input,
    output: str,
    values: tuple[float, float],
    base: _Side,
    low: _Side | None,
    high: _Side | None,
) -> Elasticity:
    at = [math.log(values[0] / number.value), 0.0, math.log(values[1] / number.value)]
    sides = [low, base, high]

    def between(i: int, j: int) -> tuple[float | None, float]:
        a, b = sides[i], sides[j]
        if a is None or b is None or output not in a.logs or output not in b.logs:
            return None, 0.0
        run = at[j] - at[i]
        return (b.logs[output] - a.logs[output]) / run, _error(output, a, b) / run

    (down, down_error), (up, up_error), (whole, error) = between(0, 1), between(1, 2), between(0, 2)
    if whole is None:
        whole, error = (up, up_error) if up is not None else (down, down_error)
    apart = abs(up - down) if up is not None and down is not None else 0.0
    return Elasticity(
        input=number,
        output=output,
        elasticity=whole,
        error=error,
        up=up,
        down=down,
        low=values[0],
        high=values[1],
        kinked=apart > max(_KINK, 2.0 * (up_error + down_error)),
    )


def _error(output: str, a: _Side, b: _Side) -> float:
    """Return the standard error of the difference of an output's logarithm between two sides."""
    if output == "wall":
        return WALL_PRECISION
    one, other = a.fits[output], b.fits[output]
    if output == "mfu":
        return difference_error(one, other, one.centre)
    # How far a crossing moves is how far the curve moves, over how steep it is.
    at = 0.5 * (a.logs[output] + b.logs[output])
    return difference_error(one, other, at) / abs(0.5 * (one.slope(at) + other.slope(at)))
